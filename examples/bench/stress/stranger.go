package main

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/gateway/gatewaytest/light"
)

const (
	adminToken = "operator"
	// descriptors is the limit of each gateway, which leaves 128 connections to clients.
	descriptors = 256
	// silent is how many connections say nothing.
	silent = 110
	// busyPeople bounds the connections of people beside those with streams, so that all fit.
	busyPeople = 20
	// What a stranger sends each second: requests with wrong tokens, each from another address, posts of
	// postSize bytes for sessions of another replica, and wrong admin tokens. An operator sends right ones.
	wrongTokens, posts, postSize, wrongAdminTokens, operators = 200, 20, 256 << 10, 50, 5
	// A stranger may cause recordedAtOnce lines of the audit log at once, and recordedEach a second.
	recordedAtOnce, recordedEach = 130, 2
	// mostStored is how much more memory the store may use, in bytes.
	mostStored = 64 << 20
)

// runStranger has somebody send a gateway what it refuses, and keep its connections silent, while people
// with tokens get, list and listen, and an operator looks on.
func (s *settings) runStranger(ctx context.Context) error {
	kept := &checks{}
	err := rig.Run(ctx, func(st *rig.Stage) {
		w := newWorld(st, s, 20)
		w.client.Transport = &http.Transport{
			DialContext: dial, MaxIdleConnsPerHost: people, MaxConnsPerHost: people + busyPeople,
		}
		w.store = newStore(st)
		audit := filepath.Join(st.Dir(), "audit.jsonl")
		start := func(blocks string) *rig.Gateway {
			text := strings.Replace(w.configuration(blocks), "admin {", fmt.Sprintf(
				"admin {\n  token_sha256 = \"%x\"\n ", sha256.Sum256([]byte(adminToken))), 1)
			limit := fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, descriptors)
			return st.Gateway(text, nil, "sh", "-c", limit, w.program)
		}
		alone := start("")
		troubled := start(cluster(w.store.address) + fmt.Sprintf("\naudit {\n  path = %q\n  required = true\n}\n", audit))
		peer := start(cluster(w.store.address))
		w.gateways = []*rig.Gateway{troubled, peer}
		rig.Check(w.awaitStore())
		_, stored := w.store.process.Usage()
		attack := &stranger{w, troubled}
		st.Defer(attack.silence())
		loads := []*rig.Paced{
			rig.Pace(ctx, wrongTokens, attack.guess), rig.Pace(ctx, posts, attack.post(peer)),
			rig.Pace(ctx, wrongAdminTokens, func(ctx context.Context) error {
				_, err := rig.Fetch(ctx, http.MethodGet, troubled.Admin+"/upstreams", "Authorization: Bearer wrong")
				return err
			}),
		}
		operator := rig.Pace(ctx, operators, func(ctx context.Context) error {
			_, err := rig.Fetch(ctx, http.MethodGet, troubled.Admin+"/upstreams", "Authorization: Bearer "+adminToken)
			return err
		})
		begun := time.Now()
		w.compare(s, kept, alone, troubled)
		for _, l := range loads {
			all := l.Stop()
			kept.want(len(all) > 0 && len(all.Failed()) == len(all), "a stranger was answered, or sent nothing")
		}
		looks := operator.Stop()
		kept.want(len(looks.Failed()) == 0, "%d of %d pages were kept from an operator", len(looks.Failed()), len(looks))
		_, now := w.store.process.Usage()
		kept.want(now-stored <= mostStored, "the store holds %d MiB more", (now-stored)>>20)
		lines := strings.Count(string(rig.Must(os.ReadFile(audit))), `"outcome":"refused"`)
		most := recordedAtOnce + recordedEach*int(time.Since(begun).Seconds())
		kept.want(lines <= most && lines > 0, "%d lines of the audit log about refusals, not 1 to %d", lines, most)
		fmt.Printf("\n%d lines of the audit log about %d wrong tokens; %d pages for an operator, the slowest in %s; "+
			"%d MiB more in the store\n", lines, wrongTokens*int(time.Since(begun).Seconds()), len(looks),
			rig.Milliseconds(looks.Quantile(100)), (now-stored)>>20)
	})
	return errors.Join(err, kept.err())
}

// stranger is somebody who troubles a gateway.
type stranger struct {
	w       *world
	gateway *rig.Gateway
}

// dial connects from an address that hardly anybody else has.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	from := net.IPv4(127, byte(1+rand.IntN(250)), byte(rand.IntN(250)), byte(1+rand.IntN(250))) //nolint:gosec // need not be secret
	return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}).DialContext(ctx, network, address)
}

// silence keeps connections on which nothing is sent, until stop is called.
func (a *stranger) silence() (stop func()) {
	ctx, cancel := context.WithCancel(a.w.st.Context())
	for range silent {
		go func() {
			for ctx.Err() == nil {
				if conn, err := dial(ctx, "tcp", a.gateway.Address()); err == nil {
					ended := context.AfterFunc(ctx, func() { _ = conn.Close() })
					_, _ = io.Copy(io.Discard, conn) // until the gateway closes it
					_ = conn.Close()
					ended()
				}
				time.Sleep(time.Second)
			}
		}()
	}
	return cancel
}

// guess sends a wrong token.
func (a *stranger) guess(ctx context.Context) error {
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	c := light.Client{Endpoint: a.gateway.Endpoint, Token: crand.Text(), Transport: transport}
	return c.Get(ctx, "plain.p00000")
}

// post returns what posts for sessions at another replica that do not exist.
func (a *stranger) post(peer *rig.Gateway) func(context.Context) error {
	ctx, base := a.w.st.Context(), strings.TrimSuffix(peer.Endpoint, "/mcp")
	c := *a.w.at(peer.Endpoint)
	c.Token = strangerToken
	response, err := c.Send(ctx, http.MethodGet, base+"/sse", "")
	rig.Check(err)
	defer response.Body.Close()
	first := make([]byte, 256)
	n := rig.Must(response.Body.Read(first))
	_, session, _ := strings.Cut(string(first[:n]), "sessionId=")
	id, _, _ := strings.Cut(session, "\n")
	_, replica, ok := strings.Cut(strings.TrimSpace(id), ".")
	if !ok {
		rig.Check(fmt.Errorf("no session names its replica: %s", first[:n]))
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + string(bytes.Repeat([]byte("x"), postSize)) + `"}}`
	return func(ctx context.Context) error {
		path := "/sse?sessionId=" + crand.Text() + "." + replica
		response, err := c.Send(ctx, http.MethodPost, strings.TrimSuffix(a.gateway.Endpoint, "/mcp")+path, body)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body) // why not
		if response.StatusCode < http.StatusBadRequest {
			return nil
		}
		return errors.New(response.Status)
	}
}
