package upstream

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/sony/gobreaker/v2"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/queue"
)

// Names of the packages beneath that the gateway needs to make calls, so that it depends on this
// one alone.
type (
	// Options are what a connector needs beside its configuration.
	Options = client.Options
	// Result is the result of a request.
	Result = client.Result
	// Relay passes on what a server says during a call.
	Relay = client.Relay
	// Cause says to an operator why an upstream is in trouble.
	Cause = client.Cause
	// Caller identifies a caller by a key.
	Caller = queue.Caller
	// BreakerState is the state of a circuit breaker.
	BreakerState = gobreaker.State
)

// Connector keeps one upstream connected, and its list of prompts up to date. All methods are safe
// for concurrent use.
type Connector struct {
	upstream config.Upstream
	// One of them is nil: an upstream has a server or a folder with prompts.
	server   *server
	folder   *folder
	onChange func()
	logger   *slog.Logger
	// metrics are made when something is measured first.
	metrics func() *instruments
	// queue limits the calls in flight and the requests per second.
	queue   *queue.Queue
	retired atomic.Bool

	mu    sync.Mutex // serialises update
	state atomic.Pointer[State]
}

// New returns a connector that has not started. It calls onChange after each change of [State];
// onChange must not block.
func New(u config.Upstream, opts Options, onChange func()) *Connector {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	c := &Connector{
		upstream: u, onChange: onChange,
		logger: opts.Logger.With(slog.String("upstream", u.Name), slog.String("team", u.Team)),
	}
	c.metrics = sync.OnceValue(func() *instruments { return newInstruments(&c.upstream) })
	c.queue = queue.New(u.Concurrency, u.Timeout, u.Rate)
	if u.Files != nil {
		c.folder = newFolder(u, c.logger, c.publish)
		c.state.Store(c.folder.starting())
		return c
	}
	c.server = newServer(c, opts)
	c.state.Store(&State{})
	return c
}

// ShareFolders makes the connector of an upstream with files read them together with those of the
// same team's other upstreams. To be called before [Connector.Run].
func (c *Connector) ShareFolders(folders *Folders) {
	if c.folder != nil {
		c.folder.folders = folders
	}
}

// Upstream returns the configuration that the connector was made with.
func (c *Connector) Upstream() config.Upstream { return c.upstream }

// State returns what is known now. It never blocks.
func (c *Connector) State() *State { return c.state.Load() }

// Run keeps the upstream connected until ctx ends. It always returns nil: that a server is down
// shows in [State].
func (c *Connector) Run(ctx context.Context) error {
	if c.folder != nil {
		c.folder.folders.run(ctx, c.folder)
		return nil
	}
	c.server.run(ctx)
	return nil
}

// ConnectNow ends the wait of a server that is down for the next attempt to connect. It does not
// wait for the attempt.
func (c *Connector) ConnectNow() {
	if c.server != nil && c.server.connection.Load().session == nil {
		// It is also set while an attempt is being made: should that fail, the next one comes at
		// once.
		c.server.connectNow.Set()
	}
}

// Relist has the list requested again, because something showed that it is out of date. It does not
// wait for that, and a server is asked no more often than for its own notifications.
func (c *Connector) Relist() {
	if c.server != nil {
		c.server.health.Relist.Set()
	}
}

// Retire makes calls fail with [ErrRetired] from now on. It returns when those in flight have
// ended, or ctx has. Sessions stay open until Run's context ends.
func (c *Connector) Retire(ctx context.Context) {
	c.retired.Store(true)
	select {
	// It also refuses the calls that found retired unset but have no slot yet, so that none is
	// missed.
	case <-c.queue.Close():
	case <-ctx.Done():
	}
}

// Completes reports whether the server declared completions. Without a session it is true, so that
// a call is made and finds out.
func (c *Connector) Completes() bool {
	if c.folder != nil {
		return true
	}
	session := c.server.connection.Load().session
	return session == nil || session.Declared.Completes()
}

// update publishes a changed copy of the state, and tells the connector's owner.
func (c *Connector) update(change func(*State)) {
	c.mu.Lock()
	next := *c.state.Load()
	change(&next)
	next.Problem = cmp.Or(next.ofList, next.ofCalls)
	c.state.Store(&next)
	// Before the owner is told, who may want to update the state at once. Two calls may reach the
	// owner out of order, which does not matter: it reads the newest state.
	c.mu.Unlock()
	c.onChange()
}

// publish makes a state the current one, and tells the connector's owner. For the folder's
// goroutine.
func (c *Connector) publish(next *State) {
	c.state.Store(next)
	c.onChange()
}
