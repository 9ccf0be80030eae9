package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/loglimit"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxLogged bounds how often the same message is logged for one server within ten seconds.
const maxLogged = 50

// Connect opens a single session with a server. See [Dialer.Connect].
func Connect(ctx context.Context, server config.Upstream, opts Options) (*Session, error) {
	return ConnectFor(ctx, server, opts, SessionOptions{})
}

// ConnectFor is [Connect] for a session that is more than the zero [SessionOptions].
func ConnectFor(ctx context.Context, server config.Upstream, opts Options, session SessionOptions) (*Session, error) {
	d := NewDialer(server, opts)
	s, err := d.Connect(ctx, session)
	if err != nil { // nobody else has the dialer to close its connections
		d.CloseIdleConnections()
		return nil, err
	}
	s.ownsDialer = true
	return s, nil
}

// Dialer opens sessions with one server. The sessions share its connections and access tokens.
type Dialer struct {
	server         config.Upstream
	http           *httpClient // nil for a child process
	implementation jsontext.Value
	// mask hides the server's secrets in errors; the logger has it too.
	mask   config.Mask
	logger *slog.Logger
	// stderr is the logger of what children write to their stderr; nil without a child. A child
	// that is started again and again says the same each time.
	stderr *slog.Logger
	// output is what the child that was started last has printed; nil before the first.
	output atomic.Pointer[childOutput]
}

// NewDialer returns a dialer, which contacts nothing before it is asked for a session.
func NewDialer(server config.Upstream, opts Options) *Dialer {
	mask := server.Mask()
	logger := cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	masked := slog.New(&maskLog{logger.With(slog.String("upstream", server.Name)).Handler(), mask})
	d := &Dialer{
		server: server, implementation: opts.implementation(), mask: mask,
		logger: loglimit.New(masked, maxLogged),
	}
	if server.Transport == config.Stdio {
		// Each line once in ten seconds, and no more than maxLogged lines of whatever kind.
		d.stderr = loglimit.New(loglimit.New(masked, 1, "line"), maxLogged)
	} else {
		d.http = newHTTPClient(&d.server, opts)
	}
	return d
}

// negotiatesEra reports whether a session may be of either era.
func (d *Dialer) negotiatesEra() bool { return d.server.Protocol == "auto" || d.server.Protocol == "" }

// CloseIdleConnections closes connections that no request uses.
func (d *Dialer) CloseIdleConnections() { d.http.closeIdle() }

// SlowStart returns the error of an attempt to open a session that goes on after a time: why it has
// not succeeded yet.
func (d *Dialer) SlowStart(after time.Duration) error {
	return d.failure(&stageError{error: context.DeadlineExceeded, method: wire.Initialize, since: time.Now().Add(-after)})
}

// Connect opens a session: it reaches the server, detects its era and, over HTTP, the transport
// unless that is configured, and agrees on a revision. A server that gives no session is not kept
// connected: connections of 10 000 would take 500 MB, and another one may lead to a machine that is
// well.
func (d *Dialer) Connect(ctx context.Context, opts SessionOptions) (*Session, error) {
	s, err := d.connect(ctx, opts)
	if err != nil {
		d.http.closeIdle()
	}
	return s, err
}

// connect opens a session in one of the ways that the server may know.
func (d *Dialer) connect(ctx context.Context, opts SessionOptions) (*Session, error) {
	server := d.server
	s, err := d.open(ctx, server, opts)
	switch {
	case err == nil || ctx.Err() != nil:
		return s, err
	// A legacy server that exits on an unknown method: start it once more.
	case errors.Is(err, errProbeFatal):
		server.Protocol = anyLegacy
		return d.open(ctx, server, opts)
	case server.Transport == config.StreamableHTTP && !server.TransportExplicit && mayBeSSE(err):
		server.Transport = config.SSE
		s, sseErr := d.open(ctx, server, opts)
		if sseErr != nil {
			return nil, furthest(err, sseErr)
		}
		return s, nil
	}
	return s, err
}

// furthest returns the error of two attempts to connect over HTTP. Its cause is that of the attempt that got
// further.
func furthest(streamable, sse error) error {
	if progress(sse) > progress(streamable) {
		return fmt.Errorf("%s; over HTTP+SSE: %w", streamable.Error(), sse)
	}
	return fmt.Errorf("%w; over HTTP+SSE: %s", streamable, sse.Error())
}

// progress returns how far an attempt to connect over HTTP got: to no server at the path, to one that
// refuses the request, to one that answers.
func progress(err error) int {
	if status, ok := errors.AsType[*StatusError](err); ok {
		switch status.Status {
		case http.StatusNotFound, http.StatusGone, http.StatusMethodNotAllowed:
			return 0
		}
		return 1
	}
	if nonsense, ok := errors.AsType[*ProtocolError](err); ok && nonsense.foreign {
		return 0
	}
	return 2
}

// open opens a session over the configured transport.
func (d *Dialer) open(ctx context.Context, server config.Upstream, opts SessionOptions) (*Session, error) {
	t, err := d.newTransport(server)
	if err != nil {
		return nil, d.failure(err)
	}
	s := newSession(d, server, t, opts)
	// The server may speak before the handshake is complete: a ping then wants a reply.
	t.start(func(m *wire.Message) { s.receive(m, nil) })
	isOpen := false
	defer func() {
		if !isOpen { // by an error, or a panic over what the server sent
			s.Close()
		}
	}()
	if err := s.open(ctx); err != nil {
		return nil, d.failure(err)
	}
	isOpen = true
	return s, nil
}

func (d *Dialer) newTransport(server config.Upstream) (transport, error) {
	switch server.Transport {
	case config.Stdio:
		child, err := startChild(server, d.logger, d.stderr)
		if err != nil {
			return nil, err
		}
		d.output.Store(&child.output)
		return child, nil
	case config.SSE:
		return newSSETransport(d.http, server.Timeout, d.logger), nil
	default:
		return newHTTPTransport(d.http, server.Timeout, d.logger), nil
	}
}

// Options are what sessions need beside the server's configuration. The zero value works.
type Options struct {
	// Logger receives changes of state and what a child process writes to stderr; nil discards
	// both.
	Logger *slog.Logger
	// Name and Version identify the gateway to servers.
	Name, Version string
	// DialGuard returns an error for an address that must not be dialed. It gets an IP address and
	// a port, after name resolution. Nil allows every address.
	DialGuard func(address string) error
	// Pace spreads what idle servers are asked, to see whether they are there; those of all
	// upstreams share it. Nil for none.
	Pace *rate.Limiter
	// Connects bounds the attempts to connect of one team's upstreams, which share it. Nil for no bound.
	Connects *rate.Limiter
	// Transport carries HTTP requests in place of a network transport. TLS settings and DialGuard
	// do not apply to it.
	Transport http.RoundTripper
}

// implementation is how the gateway introduces itself (Implementation in the schema).
func (o Options) implementation() jsontext.Value {
	name, version := o.Name, o.Version
	if name == "" {
		name, version = "promptweir", "0"
	}
	return wire.Object{}.With("name", wire.Quote(name)).With("version", wire.Quote(version)).JSON()
}

// SessionOptions say what a session is for. The zero value is a session that declares no client
// capabilities.
type SessionOptions struct {
	// OnListChanged is called when the server says that its list of prompts changed. It must not
	// block. It may be nil.
	OnListChanged func()
	// Capabilities are declared to a server of the legacy era, which learns them once for the whole
	// session.
	Capabilities wire.Capabilities
	// Relays allows messages that are not tied to a call to be relayed to the only call that they
	// can belong to. With Exclusive, the session's user makes one call at a time, so that this is
	// also possible after the first call.
	Relays, Exclusive bool
	// OnUntied is called when the server sends a request for the client without saying in which
	// call. It may be nil.
	OnUntied func()
}

// maskLog is a slog.Handler that hides the server's secrets in what it has printed, or what an
// error quotes.
type maskLog struct {
	slog.Handler

	mask config.Mask
}

// Handle implements slog.Handler.
func (l *maskLog) Handle(ctx context.Context, r slog.Record) error {
	masked := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.AnyValue(l.mask.Error(err))
		} else if a.Value.Kind() == slog.KindString {
			a.Value = slog.StringValue(l.mask.Text(a.Value.String()))
		}
		masked.AddAttrs(a)
		return true
	})
	return l.Handler.Handle(ctx, masked)
}

// WithAttrs implements slog.Handler. The attributes are the gateway's own.
func (l *maskLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &maskLog{l.Handler.WithAttrs(attrs), l.mask}
}

// WithGroup implements slog.Handler.
func (l *maskLog) WithGroup(name string) slog.Handler {
	return &maskLog{l.Handler.WithGroup(name), l.mask}
}
