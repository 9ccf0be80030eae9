package upstream

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/call"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/session"
)

// Aliases for types of packages call, client and session, so that the gateway need not import call and
// session.
type (
	// Options are the settings of a connector that are not in its configuration.
	Options = client.Options
	// Result is the result of a request.
	Result = client.Result
	// Relay passes a server's messages during a call to the client.
	Relay = client.Relay
	// State is a snapshot of an upstream's status. It is immutable.
	State = session.State
	// Problem explains why an upstream's list may be outdated, or why its calls fail.
	Problem = session.Problem
	// Reason tells clients in one word why there is no answer.
	Reason = client.Reason
	// Cause explains to operators why an upstream has a problem.
	Cause = client.Cause
	// Caller identifies a caller by a key, for fairness between callers.
	Caller = call.Caller
	// Request is a request for an upstream.
	Request = call.Request
	// Unavailable is the error of a call that got no usable JSON-RPC response.
	Unavailable = call.Unavailable //nolint:errname // upstream.Unavailable reads well
)

// The reasons of [Unavailable] and of a [Problem].
const (
	Unreachable = client.Unreachable
	Timeout     = client.Timeout
	BadResponse = client.BadResponse
	Denied      = client.Denied
	RateLimited = client.RateLimited
	BreakerOpen = session.BreakerOpen
	Overloaded  = session.Overloaded
	ListRefused = session.ListRefused
	InvalidFile = session.InvalidFile
)

// Attributes of metrics and spans. They mean the same for a client's request and for a call to an
// upstream.
const (
	AttrMethod    = session.AttrMethod
	AttrRevision  = session.AttrRevision
	AttrPrompt    = session.AttrPrompt
	AttrStatus    = session.AttrStatus
	AttrErrorType = session.AttrErrorType
	AttrUpstream  = session.AttrUpstream
	AttrTeam      = session.AttrTeam
	AttrReason    = session.AttrReason
)

// Connector keeps one upstream connected, and its list of prompts up to date. All methods are safe
// for concurrent use.
type Connector struct {
	upstream config.Upstream
	// An upstream has either a server or a folder with prompts. The fields for the other kind are
	// nil.
	server *session.Server
	calls  *call.Calls // makes the calls to the server
	folder *folder

	retired atomic.Bool
}

// New returns a connector that does nothing until [Connector.Run]. It calls onChange after each
// change of [State]; onChange must not block.
func New(u config.Upstream, opts Options, onChange func()) *Connector {
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	logger := opts.Logger.With(slog.String("upstream", u.Name), slog.String("team", u.Team))
	c := &Connector{upstream: u}
	if u.Files != nil {
		c.folder = newFolder(u, logger, onChange)
	} else {
		c.server = session.New(&c.upstream, opts, logger, onChange)
		c.calls = call.New(&c.upstream, c.server)
	}
	return c
}

// ShareFolders makes the connectors of one team's upstreams with files read them together. Call it
// before [Connector.Run]. It does nothing for a server.
func (c *Connector) ShareFolders(folders *Folders) {
	if c.folder != nil {
		c.folder.folders = folders
	}
}

// Upstream returns the configuration with which the connector was made.
func (c *Connector) Upstream() config.Upstream { return c.upstream }

// State returns the current state. It never blocks.
func (c *Connector) State() *State {
	if c.folder != nil {
		return c.folder.state.Load()
	}
	return c.server.State()
}

// Run keeps the upstream connected until ctx ends. It always returns nil: [State] shows whether the
// server is down.
func (c *Connector) Run(ctx context.Context) error {
	if c.folder != nil {
		c.folder.folders.run(ctx, c.folder)
		return nil
	}
	c.server.Run(ctx)
	return nil
}

// ConnectNow makes a server that is down attempt to connect at once. It does not wait for the
// attempt.
func (c *Connector) ConnectNow() {
	if c.server != nil {
		c.server.ConnectNow()
	}
}

// Relist makes the connector request the list again, after a sign that the list is outdated. It
// does not wait for the list. It shares a rate limit with the server's own notifications.
func (c *Connector) Relist() {
	if c.server != nil {
		c.server.Relist.Set()
	}
}

// ErrRetired means that a connector takes no more calls: its upstream has a new connector, or was
// removed. Nothing was sent.
var ErrRetired = call.ErrRetired

// Call sends a request to the upstream and returns its result. The upstream's timeout bounds the
// call, and is paused while the relay asks a client. The relay may be nil. The error is a
// [*wire.Error] if the upstream answered with an error, [*Unavailable] if it gave no usable answer,
// and the context's error if the caller gave up. It is [ErrRetired] if the connector takes no more
// calls. During a pause that the server asked for, calls fail at once.
//
// A call waits for the rate limit and for a slot. If the server does not answer, the call is tried
// again after a backoff. The retry block bounds the number of attempts, and each attempt leaves
// time for the next. A call is not tried again after part of its response has arrived, or after its
// client was asked something. If no attempt is answered, and none has an error that forbids another
// one, Call returns the error of the first attempt.
func (c *Connector) Call(ctx context.Context, request *Request, relay *Relay) (Result, error) {
	switch {
	case c.retired.Load():
		return Result{}, ErrRetired
	case c.folder != nil: // answered from memory, without queue, breaker, retries and metrics
		return c.folder.call(request)
	}
	return c.calls.Do(ctx, request, relay)
}

// Retire makes calls fail with [ErrRetired] from now on. It returns when the calls in flight have
// ended, or when ctx ends. Sessions stay open until Run's context ends.
func (c *Connector) Retire(ctx context.Context) {
	c.retired.Store(true)
	if c.folder != nil {
		return
	}
	select {
	// Close also refuses the calls that began just before and have no slot yet.
	case <-c.calls.Close():
	case <-ctx.Done():
	}
}

// Completes reports whether the server declared completions. Without a session it returns true,
// because the call then waits for a session and finds out. It is always true for files.
func (c *Connector) Completes() bool {
	return c.folder != nil || c.server.Completes()
}
