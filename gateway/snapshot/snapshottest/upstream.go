package snapshottest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Upstream is a server in memory. The fields are read when it is first used.
type Upstream struct {
	// Definitions are the prompts that it lists, as JSON objects.
	Definitions []string
	// Starting is true for a server that has neither answered nor failed yet; see [Upstream.List].
	Starting bool
	// Answer answers calls. If it is nil, the result of each call is one message.
	Answer func(ctx context.Context, request *upstream.Request, relay *upstream.Relay) (upstream.Result, error)
	// NoCompletions is true for a server that declares no completions.
	NoCompletions bool

	mu sync.Mutex // guards what follows
	// state is nil until the server is used.
	state   *upstream.State
	changed func()
	calls   []upstream.Request
	relists int
}

// Result returns the result of a server that speaks the latest revision, from its JSON.
func Result(json string) upstream.Result {
	return upstream.Result{JSON: jsontext.Value(json), Revision: wire.Rev20260728}
}

// Calls returns the requests that the server received.
func (u *Upstream) Calls() []upstream.Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.calls)
}

// Relists returns how often the list was requested again.
func (u *Upstream) Relists() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.relists
}

// List has the server list definitions, and ends its problem.
func (u *Upstream) List(definitions ...string) {
	u.Change(func(s *upstream.State) { list(s, definitions) })
}

// Fail ends the session for a reason. The last list stays.
func (u *Upstream) Fail(reason upstream.Reason, err error) {
	u.Change(func(s *upstream.State) {
		s.Tried, s.Connected = true, false
		s.Problem = &upstream.Problem{Reason: reason, Since: time.Now(), Err: err}
	})
}

// Change changes the state of the server, which a publisher that runs publishes soon.
func (u *Upstream) Change(change func(*upstream.State)) {
	u.mu.Lock()
	next := *u.stateLocked()
	change(&next)
	u.state = &next
	changed := u.changed
	u.mu.Unlock()
	if changed != nil {
		changed()
	}
}

func (u *Upstream) stateLocked() *upstream.State {
	if u.state == nil {
		u.state = &upstream.State{Revision: wire.Rev20260728}
		if !u.Starting {
			list(u.state, u.Definitions)
		}
	}
	return u.state
}

func list(s *upstream.State, texts []string) {
	definitions := make([]jsontext.Value, len(texts))
	for i, text := range texts {
		definitions[i] = jsontext.Value(text)
	}
	s.Tried, s.Connected, s.Listed, s.Problem = true, true, true, nil
	s.Definitions, s.Lists = definitions, s.Lists+1
}

// connector returns a connector of the server.
func (u *Upstream) connector(cfg config.Upstream, changed func()) publish.Connector {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.changed = changed
	return &connector{config: cfg, server: u}
}

// connector connects one generation, or several, with a server.
type connector struct {
	config  config.Upstream
	server  *Upstream
	retired atomic.Bool
}

func (c *connector) Upstream() config.Upstream { return c.config }

func (c *connector) State() *upstream.State {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.server.stateLocked()
}

func (c *connector) Completes() bool { return !c.server.NoCompletions }

func (c *connector) Relist() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.relists++
}

func (c *connector) ConnectNow() {}

// Run waits for the end: the test calls [Upstream.Change].
func (c *connector) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (c *connector) Retire(context.Context) { c.retired.Store(true) }

// Call has the server answer. It checks the result as a real connector does.
func (c *connector) Call(ctx context.Context, request *upstream.Request, relay *upstream.Relay) (upstream.Result, error) {
	if c.retired.Load() {
		return upstream.Result{}, upstream.ErrRetired
	}
	c.server.mu.Lock()
	c.server.calls = append(c.server.calls, *request)
	c.server.mu.Unlock()
	result, err := Result(`{"messages":[{"role":"user","content":{"type":"text","text":"hello"}}]}`), error(nil)
	if c.server.Answer != nil {
		result, err = c.server.Answer(ctx, request, relay)
	}
	if err == nil && request.Check != nil {
		if err = request.Check(result); err != nil {
			err = &upstream.Unavailable{Upstream: c.config.Name, Reason: upstream.BadResponse, Err: err}
		}
	}
	return result, err
}
