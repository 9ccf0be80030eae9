package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/client"
	"github.com/promptweir/promptweir/examples/bench/internal/lean"
	"github.com/promptweir/promptweir/examples/bench/internal/process"
)

// The tokens of the clients.
const (
	everything = "sees-everything"
	shared     = "sees-shared-prompts"
)

// configuration is that of the gateway.
const configuration = `
gateway { listen = "127.0.0.1:0" }
admin { listen = "127.0.0.1:0" }
auth {
  token "member" { sha256 = %q }
  token "guest" { sha256 = %q }
}
team "bench" {
  members = ["user:member"]
  upstream "lean" { url = %q }
  expose "shared prompts" {
    prompts = ["lean.shared"]
    to      = ["*"]
  }
}
`

// stage is the gateway, a process of its own, and the upstream behind it.
type stage struct {
	gateway  *process.Process
	endpoint string
	upstream lean.Server
	prompts  map[string]string // definitions by name
	stops    []func()
}

// newStage starts the upstream and the gateway, and waits until the gateway has listed the upstream.
func newStage(ctx context.Context, s settings) (_ *stage, err error) {
	st := &stage{prompts: map[string]string{}}
	defer func() {
		if err != nil {
			st.close()
		}
	}()
	st.change("shared", -1)
	st.change("secret", -1)
	server, stop, err := serve(ctx, &st.upstream)
	if err != nil {
		return nil, err
	}
	st.stops = append(st.stops, stop)

	dir, err := os.MkdirTemp("", "fanout")
	if err != nil {
		return nil, err
	}
	st.stops = append(st.stops, func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "gateway.hcl")
	if err := os.WriteFile(file, fmt.Appendf(nil, configuration, hash(everything), hash(shared), server), 0o600); err != nil {
		return nil, err
	}
	if st.gateway, err = process.Start(ctx, filepath.Join(s.bin, "promptweir"), "serve", "--config", file); err != nil {
		return nil, err
	}
	st.stops = append(st.stops, func() { _ = st.gateway.Stop() })
	if st.endpoint, err = st.gateway.Attr("endpoint"); err != nil {
		return nil, err
	}
	return st, st.listed(ctx)
}

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// listed waits until the gateway has both prompts.
func (st *stage) listed(ctx context.Context) error {
	c := client.Client{Endpoint: st.endpoint, Token: everything, Transport: http.DefaultTransport}
	for {
		prompts, _, err := c.Page(ctx, "")
		if err == nil && len(prompts) == len(st.prompts) {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the gateway lists %v instead of both prompts: %w\n%s", prompts, err, st.gateway.Log())
		}
	}
}

// change changes the description of one prompt; the upstream notifies the gateway.
func (st *stage) change(prompt string, version int) {
	st.prompts[prompt] = lean.Prompt(prompt, fmt.Sprint("version ", version))
	st.upstream.Offer(st.prompts["shared"], st.prompts["secret"])
}

// close stops the gateway, then its upstream.
func (st *stage) close() {
	for i := range st.stops {
		st.stops[len(st.stops)-1-i]()
	}
}

// host returns the host and port of an endpoint.
func host(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", err
	}
	return u.Host, nil
}
