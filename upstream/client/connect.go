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

// maxLogged bounds the log records with the same message about one server in ten seconds.
const maxLogged = 50

// Connect opens a single session with a server. See [Dialer.Connect].
func Connect(ctx context.Context, server config.Upstream, opts Options) (*Session, error) {
	return ConnectFor(ctx, server, opts, SessionOptions{})
}

// ConnectFor is [Connect] with [SessionOptions].
func ConnectFor(ctx context.Context, server config.Upstream, opts Options, session SessionOptions) (*Session, error) {
	d := NewDialer(server, opts)
	s, err := d.Connect(ctx, session)
	if err != nil { // no other session uses the dialer
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
	// mask hides the server's secrets in errors. The logger uses it too.
	mask   config.Mask
	logger *slog.Logger
	// stderr logs the stderr of child processes. It is nil unless the transport is stdio. Its
	// records are limited, because a child that keeps restarting prints the same lines each time.
	stderr *slog.Logger
	// output holds the output of the child process that was started last. It is nil before the first start.
	output atomic.Pointer[childOutput]
}

// NewDialer returns a dialer. It does not contact the server.
func NewDialer(server config.Upstream, opts Options) *Dialer {
	mask := server.Mask()
	logger := cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)).With(slog.String("upstream", server.Name))
	masked := slog.New(&maskLog{logger.Handler(), mask})
	d := &Dialer{
		server: server, implementation: opts.implementation(), mask: mask,
		logger: loglimit.New(masked, maxLogged),
	}
	if server.Transport == config.Stdio {
		// In ten seconds, each line is logged at most once, and at most maxLogged lines are logged.
		d.stderr = loglimit.New(loglimit.New(masked, 1, "line"), maxLogged)
	} else {
		d.http = newHTTPClient(&d.server, opts)
	}
	return d
}

// negotiatesEra reports whether the configuration allows both eras.
func (d *Dialer) negotiatesEra() bool { return d.server.Protocol == "auto" || d.server.Protocol == "" }

// CloseIdleConnections closes the connections that no request uses now, and each other connection when its request has
// ended. A child process has no connections.
func (d *Dialer) CloseIdleConnections() {
	if d.http != nil {
		d.http.network.CloseIdle()
	}
}

// SlowStart returns the error of an attempt to connect that has lasted for the given time and still goes on.
func (d *Dialer) SlowStart(after time.Duration) error {
	return d.failure(&stageError{error: context.DeadlineExceeded, method: wire.Initialize, since: time.Now().Add(-after)})
}

// Connect opens a session: it connects to the server, detects its era and agrees on a revision. Over HTTP it also
// detects the transport, unless one is configured. After a failure it closes the idle connections to the server: for
// 10 000 servers they would take 500 MB, and a new connection may reach a healthy machine.
func (d *Dialer) Connect(ctx context.Context, opts SessionOptions) (*Session, error) {
	s, err := d.connect(ctx, opts)
	if err != nil {
		d.CloseIdleConnections()
	}
	return s, err
}

// connect tries the transports and eras that the configuration allows.
func (d *Dialer) connect(ctx context.Context, opts SessionOptions) (*Session, error) {
	server := d.server
	s, err := d.open(ctx, server, opts)
	switch {
	case err == nil || ctx.Err() != nil:
	// Some legacy servers exit on an unknown method: start the server again, without the probe.
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

// furthest combines the errors of both HTTP transports. It wraps the error of the attempt that got further, and
// contains the text of the other error.
func furthest(streamable, sse error) error {
	if progress(sse) > progress(streamable) {
		return fmt.Errorf("%s; over HTTP+SSE: %w", streamable.Error(), sse)
	}
	return fmt.Errorf("%w; over HTTP+SSE: %s", streamable, sse.Error())
}

// progress returns how far an attempt to connect over HTTP got: 0 if the path does not exist or the response is not
// MCP (such as a web page), 1 for another HTTP error, and 2 for any other error.
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
	// The server may send a ping, which needs a reply, before the handshake is complete.
	t.start(func(m *wire.Message) { s.receive(m, nil) })
	isOpen := false
	defer func() {
		if !isOpen { // after an error, or after a panic that the server's message caused
			s.Close()
		}
	}()
	if err := s.open(ctx); err != nil {
		return nil, d.failure(err)
	}
	isOpen = true
	return s, nil
}

// newTransport starts the child process of a stdio server. For an HTTP server it sends nothing.
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
		return &sseTransport{http: &httpSession{httpClient: d.http}, mux: newMux(d.logger), opened: make(chan struct{})}, nil
	default:
		return newHTTPTransport(d.http, d.logger), nil
	}
}

// Options are the settings of sessions that are not in the server's configuration. The zero value
// works.
type Options struct {
	// Logger receives changes of state and the stderr of child processes. Nil discards both.
	Logger *slog.Logger
	// Name and Version identify the gateway to servers.
	Name, Version string
	// DialGuard returns an error for an address that must not be dialed. Its argument is an IP
	// address and port, after name resolution. Nil allows every address.
	DialGuard func(address string) error
	// Connects limits the rate of attempts to connect to servers that are down. All upstreams of a team
	// share it. Nil means no limit.
	Connects *rate.Limiter
	// Transport replaces the network. TLS settings and DialGuard do not apply to it.
	Transport http.RoundTripper
}

// implementation returns the Implementation object (MCP schema) that describes the gateway to servers.
func (o Options) implementation() jsontext.Value {
	name, version := o.Name, o.Version
	if name == "" {
		name, version = "promptweir", "0"
	}
	return wire.Object{}.With("name", wire.Quote(name)).With("version", wire.Quote(version)).JSON()
}

// SessionOptions are the settings of one session. The zero value declares no client capabilities.
type SessionOptions struct {
	// OnListChanged is called after each notifications/prompts/list_changed. It must not block. It
	// may be nil.
	OnListChanged func()
	// Capabilities are declared to a legacy server, once for the whole session.
	Capabilities wire.Capabilities
	// Relays allows the session to relay a message that is tied to no call to the only call in flight. Exclusive
	// promises that the session has one call at a time, so that this also works after the first call.
	Relays, Exclusive bool
	// OnUntied is called when the server sends a request for the client that is not tied to a call.
	// It may be nil.
	OnUntied func()
}

// maskLog is a slog.Handler that hides the server's secrets in the texts and errors of log records.
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

// WithAttrs implements slog.Handler. It does not mask attrs, which contain no text of a server.
func (l *maskLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &maskLog{l.Handler.WithAttrs(attrs), l.mask}
}

// WithGroup implements slog.Handler.
func (l *maskLog) WithGroup(name string) slog.Handler {
	return &maskLog{l.Handler.WithGroup(name), l.mask}
}
