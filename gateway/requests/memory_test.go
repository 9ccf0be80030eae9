package requests_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot/snapshottest"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// memory is a handler of requests with snapshots in memory: nothing listens, and servers are functions.
type memory struct {
	*snapshottest.Publisher

	t       testing.TB
	handler *requests.Handler
	variant config.Variant
	ctx     context.Context // the context of all requests
}

func serve(t testing.TB, text string, peers ...*peer) *memory {
	t.Helper()
	m, _ := serveLogged(t, text, peers...)
	return m
}

// serveLogged is serve, and returns what is logged.
func serveLogged(t testing.TB, text string, peers ...*peer) (*memory, *gatewaytest.Log) {
	t.Helper()
	servers := snapshottest.Upstreams{}
	for _, p := range peers {
		servers[p.name] = p.Upstream
	}
	log := new(gatewaytest.Log)
	logger := slog.New(slog.NewTextHandler(log, nil))
	m := &memory{t: t, ctx: t.Context(), Publisher: snapshottest.NewConfig(t, snapshottest.Load(t, text), publish.Options{Logger: logger}, servers)}
	m.handler = requests.New(&m.Source, requests.Options{Version: "1.2.3", Logger: logger})
	t.Cleanup(m.handler.Close)
	return m, log
}

// at returns the memory with the endpoint of a variant in place of the plain one.
func (m *memory) at(variant config.Variant) *memory {
	at := *m
	at.variant = variant
	return &at
}

// caller calls the handler as the clients of one revision do, once their transport has read what they send.
type caller struct {
	memory       *memory
	revision     string
	token        string
	capabilities string
}

func (m *memory) modern(token string) *caller { return &caller{m, gatewaytest.Latest, token, "{}"} }

func (m *memory) legacy(revision, token string) *caller { return &caller{m, revision, token, "{}"} }

// with returns the caller with capabilities.
func (c caller) with(capabilities string) *caller {
	c.capabilities = capabilities
	return &c
}

// response is a response without HTTP.
type response struct{ gatewaytest.Response }

func (r response) want(t testing.TB, parts ...string) {
	t.Helper()
	r.Want(t, 0, parts...)
}

// call makes a request, whose response must satisfy the schema of the revision.
func (c *caller) call(method, params string) response {
	c.memory.t.Helper()
	r := c.callUnchecked(method, params)
	gatewaytest.CheckSchema(c.memory.t, c.revision, method, r.Body)
	return r
}

// callUnchecked is call for requests and responses that no schema allows.
func (c *caller) callUnchecked(method, params string) response {
	c.memory.t.Helper()
	return c.callWithID("1", method, params)
}

func (c *caller) callWithID(id, method, params string) response {
	c.memory.t.Helper()
	var scope requests.Scope
	defer scope.Close()
	return c.handle(&scope, id, method, params)
}

func (c *caller) handle(scope *requests.Scope, id, method, params string) response {
	m := c.memory
	m.t.Helper()
	body, _ := (&gatewaytest.Client{Revision: c.revision}).Encode(id, method, params)
	body = strings.Replace(body, `"io.modelcontextprotocol/clientCapabilities":{}`,
		`"io.modelcontextprotocol/clientCapabilities":`+c.capabilities, 1)
	r, refusal := requests.Read([]byte(body))
	if refusal != nil {
		return response{gatewaytest.Response{Body: string(wire.AppendError(nil, r.Message.ID, refusal))}}
	}
	r.Revision, r.Variant, r.Snapshot = c.revision, m.variant, m.Current()
	var err error
	if r.Caller, err = r.Snapshot.Authenticate(m.t.Context(), bearer(c.token)); err != nil {
		m.t.Errorf("%s: %v", c.token, err)
		return response{}
	}
	r.ResolveTool()
	r.Capabilities = wire.ReadCapabilities(wire.Members(jsontext.Value(c.capabilities)))
	if r.WantsRelay() {
		r.Relay = requests.NewRelayQueue()
	}
	fields := func() string {
		return fmt.Sprintf("%p %+v %s %s %s %s %+v", r.Snapshot, r.Caller.Principal, r.Message.Method, r.Params.JSON(), r.Meta.JSON(), r.Revision, r.Capabilities)
	}
	before := fields()
	out := m.handler.Handle(m.ctx, r, scope, nil)
	if after := fields(); after != before {
		m.t.Errorf("%s changes its request from %s to %s", method, before, after)
	}
	return response{gatewaytest.Response{Body: string(bytes.Join(out.Parts(), nil))}}
}

// bearer is the credential of a client with a token, or without any.
func bearer(token string) identity.Credential {
	return func(ctx context.Context, a *identity.Authenticator) (policy.Principal, error) {
		if token == "" {
			return a.FromHeader(ctx, "", "")
		}
		return a.FromHeader(ctx, a.Header(), "Bearer "+token)
	}
}

// begin makes a get in the background.
func (c *caller) begin(name string) <-chan response {
	answer := make(chan response, 1)
	go func() { answer <- c.call("prompts/get", gatewaytest.GetParams(name)) }()
	return answer
}

// list returns the names on all pages of the list.
func (c *caller) list() []string {
	c.memory.t.Helper()
	names, params := []string{}, ""
	for {
		page := c.call("prompts/list", params)
		names = append(names, page.Names(c.memory.t)...)
		cursor := page.Result(c.memory.t, "nextCursor")
		if cursor == nil {
			return names
		}
		params = `{"cursor":` + string(cursor) + `}`
	}
}

func (c *caller) wantList(names ...string) {
	c.memory.t.Helper()
	if got := c.list(); !slices.Equal(names, got) {
		c.memory.t.Errorf("%s lists (-want +got):\n%s", c.revision, cmp.Diff(names, got))
	}
}

// peer is a server in memory. Its responses have its name.
type peer struct {
	*snapshottest.Upstream

	// settings are further attributes of its upstream block.
	name, settings string
	revision       string
	// hook is called with each request; nil is not.
	hook func(*upstream.Request)

	mu        sync.Mutex // guards what follows
	answers   map[string]string
	failure   error
	forgotten int
}

// newPeer returns a peer of the legacy era. Its prompts are names or whole definitions.
func newPeer(name string, prompts ...string) *peer {
	p := &peer{name: name, revision: "2025-11-25", answers: map[string]string{
		"prompts/get":         `{"messages":[{"role":"user","content":{"type":"text","text":"from ` + name + `"}}]}`,
		"completion/complete": `{"completion":{"values":["from ` + name + `"]}}`,
	}}
	p.Upstream = &snapshottest.Upstream{Definitions: gatewaytest.Definitions(prompts...), Answer: p.respond}
	return p
}

// newModernPeer returns a peer of the modern era.
func newModernPeer(name string, prompts ...string) *peer {
	p := newPeer(name, prompts...)
	p.revision = gatewaytest.Latest
	return p
}

// newDownPeer returns a peer "gone" that has never been reached.
func newDownPeer() *peer {
	p := newPeer("gone")
	p.Starting = true
	p.down()
	return p
}

// down breaks the session with the peer, and has calls fail, until it lists again.
func (p *peer) down() {
	err := errors.New("connection refused")
	p.fail(&upstream.Unavailable{Upstream: p.name, Reason: upstream.Unreachable, Err: err})
	p.Upstream.Fail(upstream.Unreachable, err)
}

// up ends that.
func (p *peer) up(prompts ...string) {
	p.fail(nil)
	p.Upstream.List(gatewaytest.Definitions(prompts...)...)
}

// answer sets the result of a method, or its error if the text begins with "error:".
func (p *peer) answer(method, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[method] = text
}

// fail has calls fail for a reason; nil ends that.
func (p *peer) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = err
}

func (p *peer) respond(_ context.Context, request *upstream.Request, _ *upstream.Relay) (upstream.Result, error) {
	if p.hook != nil {
		p.hook(request)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	text := p.answers[request.Method]
	if failed, isError := strings.CutPrefix(text, "error:"); isError {
		refusal, err := wire.ReadError(jsontext.Value(failed))
		if err != nil {
			return upstream.Result{}, err
		}
		return upstream.Result{}, refusal
	}
	return upstream.Result{JSON: jsontext.Value(text), Revision: p.revision}, p.failure
}

// calls returns the params that the peer received with a method, in order. They are without _meta, which a connector makes.
func (p *peer) calls(method string) (params []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, request := range p.Upstream.Calls()[p.forgotten:] {
		if request.Method == method {
			params = append(params, string(request.Params.Without(func(name string) bool { return name == "_meta" }).JSON()))
		}
	}
	return params
}

// forget forgets the calls so far.
func (p *peer) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgotten = len(p.Upstream.Calls())
}

// teamOf returns a team block with an upstream for each peer, and with more as the rest of its text.
func teamOf(name, members, more string, peers ...*peer) string {
	var b strings.Builder
	fmt.Fprintf(&b, "team %q {\n  members = [%s]\n", name, members)
	for _, p := range peers {
		fmt.Fprintf(&b, "  upstream %q {\n    url = \"http://127.0.0.1:1/%s\"\n    %s\n  }\n", p.name, p.name, p.settings)
	}
	return b.String() + more + "\n}\n"
}

// serveTwoTeams is [gatewaytest.ServeTwoTeams] in memory.
func serveTwoTeams(t testing.TB, auth string) (m *memory, billing, find *peer) {
	t.Helper()
	billing = newPeer("billing", "review_pr", "wip_x", "debug_y", `{"name":"ledger","arguments":[{"name":"year","required":true}]}`)
	find = newPeer("find", "query")
	return serve(t, auth+`
hide "never" { prompts = ["*.debug_*"] }
`+teamOf("payments", `"group:payments"`, `
expose "reviews" {
  prompts = ["billing.review_*", "billing.debug_*"]
  to      = ["*"]
}
hide "half-finished" { prompts = ["billing.wip_*"] }
`, billing)+teamOf("search", `"user:bob"`, "", find), billing, find), billing, find
}

// newInputRequiredPeer is [gatewaytest.NewInputRequiredPeer] in memory.
func newInputRequiredPeer(state string) *peer {
	p := newModernPeer("up", "ask", "other")
	p.Upstream.Answer = func(_ context.Context, request *upstream.Request, _ *upstream.Relay) (upstream.Result, error) {
		if request.Params.Get("inputResponses") != nil {
			return snapshottest.Result(`{"resultType":"complete","messages":[]}`), nil
		}
		return snapshottest.Result(`{"resultType":"input_required","x":2.50,"inputRequests":` + gatewaytest.InputRequests +
			`,"requestState":` + state + `}`), nil
	}
	return p
}
