package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/examples/bench/internal/load"
	"github.com/promptweir/promptweir/examples/bench/internal/process"
	"github.com/promptweir/promptweir/upstream/wire"
)

// stage starts the processes of a case, and stops them in reverse order.
type stage struct {
	bin string
	// build is the gateway's program; empty means the one in bin.
	build string
	// cores are those that the gateway may use, in the syntax of taskset; empty means all.
	cores string
	// flags are further flags of promptweir serve.
	flags []string
	// added is what each gateway has in addition.
	added addition
	stops []func()
}

func newStage(s settings) *stage { return &stage{bin: s.bin, cores: s.cores} }

func (st *stage) close() {
	for i := range st.stops {
		st.stops[len(st.stops)-1-i]()
	}
}

// program is a process that listens.
type program struct {
	*process.Process

	endpoint string
}

func (p program) address() string {
	u, err := url.Parse(p.endpoint)
	if err != nil {
		return ""
	}
	return u.Host
}

// start starts a program and waits until it listens.
func (st *stage) start(ctx context.Context, name string, args ...string) (program, error) {
	p, err := process.Start(ctx, name, args...)
	if err != nil {
		return program{}, err
	}
	st.stops = append(st.stops, func() { _ = p.Stop() })
	endpoint, err := p.Attr("endpoint")
	return program{p, endpoint}, err
}

func (st *stage) reference(ctx context.Context, args ...string) (program, error) {
	return st.start(ctx, filepath.Join(st.bin, "reference"), args...)
}

// file writes a file and returns its path. The stage removes it.
func (st *stage) file(name string, content []byte) (string, error) {
	dir, err := os.MkdirTemp("", "speed")
	if err != nil {
		return "", err
	}
	st.stops = append(st.stops, func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, content, 0o600)
}

// settingsOf is the configuration of a gateway.
type settingsOf struct {
	addition

	// upstream is the body of the upstream block; more holds further blocks of the team.
	upstream, more string
	pageSize       int
	// prompts are files by name; with them, there is no upstream.
	prompts map[string]string
	// tokens are the labels of bearer tokens, each also its own secret. The first is a member of the team.
	tokens []string
	// issuer signs JWTs; the subject "member" is a member of the team. With neither tokens nor issuer there is no auth block.
	issuer string
}

func (s settingsOf) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "gateway {\n  listen = \"127.0.0.1:0\"\n  page_size = %d\n}\nadmin { listen = \"127.0.0.1:0\" }\n", max(s.pageSize, 1))
	members := ""
	if len(s.tokens) > 0 {
		members = `"user:` + s.tokens[0] + `"`
		b.WriteString("auth {\n")
		for _, label := range s.tokens {
			sum := sha256.Sum256([]byte(label))
			fmt.Fprintf(&b, "  token %q {\n    sha256 = %q\n    groups = [\"of-%s\"]\n  }\n", label, hex.EncodeToString(sum[:]), label)
		}
		b.WriteString("}\n")
	}
	if s.issuer != "" {
		members = `"user:member"`
		fmt.Fprintf(&b, "auth {\n  jwt \"bench\" {\n    issuer = %q\n    audience = %q\n    groups_claim = \"groups\"\n  }\n}\n", s.issuer, audience)
	}
	upstream := s.upstream + "\n    concurrency = 4096\n    timeout = \"60s\""
	if s.prompts != nil {
		upstream = `files = ["*.md"]`
	}
	fmt.Fprintf(&b, "team \"bench\" {\n  members = [%s]\n  upstream \"up\" {\n    %s\n  }\n%s}\n%s\n", members, upstream, s.more, s.blocks)
	return b.String()
}

// gateway starts the gateway and waits until it is ready.
func (st *stage) gateway(ctx context.Context, s settingsOf) (program, error) {
	s.blocks += st.added.blocks
	s.environment = append(slices.Clip(s.environment), st.added.environment...)
	path, err := st.file("gateway.hcl", []byte(s.text()))
	if err != nil {
		return program{}, err
	}
	for name, text := range s.prompts {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), []byte(text), 0o600); err != nil {
			return program{}, err
		}
	}
	command := append([]string{st.build, "serve", "--config", path}, st.flags...)
	if st.build == "" {
		command[0] = filepath.Join(st.bin, "promptweir")
	}
	if len(s.environment) > 0 {
		command = append(append([]string{"env"}, s.environment...), command...)
	}
	if st.cores != "" {
		command = append([]string{"taskset", "-c", st.cores}, command...)
	}
	p, err := st.start(ctx, command[0], command[1:]...)
	if err != nil {
		return program{}, err
	}
	admin, err := p.Attr("admin")
	if err != nil {
		return program{}, err
	}
	return p, p.AwaitReady(ctx, admin)
}

// caller is a client of an endpoint.
type caller struct {
	p      program
	modern bool
	token  string
	header []string
}

// connect returns a client. One of 2025-11-25 begins a session.
func connect(ctx context.Context, p program, modern bool, token string) (*caller, error) {
	c := &caller{p: p, modern: modern, token: token}
	if token != "" {
		c.header = append(c.header, "Authorization: Bearer "+token)
	}
	if modern {
		return c, nil
	}
	header, _, err := c.ask(ctx, wire.Initialize, `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}`)
	if err != nil {
		return nil, err
	}
	if session := header.Get(wire.HeaderSessionID); session != "" {
		c.header = append(c.header, wire.HeaderSessionID+": "+session)
	}
	c.header = append(c.header, wire.HeaderProtocolVersion+": 2025-11-25")
	return c, c.send(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, c.header, func(http.Header, []byte) error { return nil })
}

const meta = `"_meta":{"` + wire.MetaProtocolVersion + `":"` + wire.Rev20260728 + `","` + wire.MetaClientCapabilities + `":{},"` +
	wire.MetaClientInfo + `":{"name":"bench","version":"1"}}`

// envelope returns the body and the header lines of a request. Params are the members of its params, without braces.
func (c *caller) envelope(id int, method, params string) (body string, header []string) {
	header = c.header
	if c.modern {
		header = append(append([]string{}, header...), wire.HeaderProtocolVersion+": 2026-07-28", wire.HeaderMethod+": "+method)
		var named struct{ Name string }
		if json.Unmarshal([]byte("{"+params+"}"), &named) == nil && method == wire.PromptsGet {
			header = append(header, wire.HeaderName+": "+named.Name)
		}
		params = strings.TrimPrefix(params+","+meta, ",")
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, method, params), header
}

// raw returns the bytes of an HTTP request.
func (c *caller) raw(id int, method, params string) []byte {
	body, header := c.envelope(id, method, params)
	return load.Post(c.p.address(), "/mcp", body, header...)
}

// each returns requests with different ids, one for each connection: a server may refuse two requests of one session that are in
// flight with the same id.
func (c *caller) each(method, params string) [][]byte {
	all := make([][]byte, 2000)
	for i := range all {
		all[i] = c.raw(i+1, method, params)
	}
	return all
}

// ask sends one request and returns the response.
func (c *caller) ask(ctx context.Context, method, params string) (header http.Header, answer []byte, err error) {
	body, lines := c.envelope(1, method, params)
	err = c.send(ctx, body, lines, func(h http.Header, text []byte) error {
		header, answer = h, text
		return nil
	})
	return header, answer, err
}

func (c *caller) send(ctx context.Context, body string, lines []string, use func(http.Header, []byte) error) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.p.endpoint, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", wire.ContentJSON)
	r.Header.Set("Accept", wire.ContentJSON+", "+wire.ContentSSE)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return errors.Join(err, use(response.Header, text))
}

// pages walks all pages of the list and returns the params of each request.
func (c *caller) pages(ctx context.Context) ([]string, error) {
	all := []string{""}
	for {
		_, text, err := c.ask(ctx, wire.PromptsList, all[len(all)-1])
		if err != nil {
			return nil, err
		}
		var answer struct{ Result struct{ NextCursor string } }
		if err := json.Unmarshal(text, &answer); err != nil {
			return nil, err
		}
		if answer.Result.NextCursor == "" {
			return all, nil
		}
		all = append(all, `"cursor":"`+answer.Result.NextCursor+`"`)
	}
}
