package transport

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/cluster"
	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/loglimit"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Transport serves the gateway's clients. Make it with [New]. Its methods are safe for concurrent
// use.
type Transport struct {
	publisher *snapshot.Publisher
	requests  *requests.Handler
	ledger    *edge.Ledger
	logger    *slog.Logger
	// refusals logs refused credentials. It is limited in rate: anybody can send any number of them.
	refusals *slog.Logger
	// refused is promptweir.identity.refused: credentials that were not accepted.
	refused metric.Int64Counter
	// notified is promptweir.notification.duration, in seconds.
	notified metric.Float64Histogram

	// For the legacy sessions of Streamable HTTP, which outlast their connections:
	inFlight inFlight
	replies  replies
	sessions *legacySessions

	forwarder *cluster.Forwarder // nil where requests are not forwarded

	sseSessions sseSessions
	hijacked    hijacked
	pendings    pendings
	// closing is closed when streams are to end.
	closing chan struct{}
	drain   sync.Once
}

// Options are what a [Transport] needs beside the snapshots and the handler of requests.
type Options struct {
	Logger *slog.Logger
	// Ledger has what clients hold.
	Ledger *edge.Ledger
	// Forwarder reaches other replicas; nil where requests are not forwarded.
	Forwarder *cluster.Forwarder
}

// New returns a transport that hands requests to a handler.
func New(publisher *snapshot.Publisher, handler *requests.Handler, opts Options) *Transport {
	meter := otel.Meter(requests.Scope)
	refused, err := meter.Int64Counter("promptweir.identity.refused",
		metric.WithUnit("{credential}"), metric.WithDescription("Refused credentials, by "+
			"reason: bad, scope, unavailable, or rate_limited."))
	if err != nil {
		otel.Handle(err) // an invalid name; the instrument beside it works and records nothing
	}
	notified, err := meter.Float64Histogram("promptweir.notification.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from the use of a changed list to its notification on a "+
			"client's stream."),
		metric.WithExplicitBucketBoundaries(0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
			1, 2, 5, 10, 30, 60, 120, 300))
	if err != nil {
		otel.Handle(err) // as above
	}
	return &Transport{
		publisher: publisher, requests: handler, ledger: opts.Ledger, logger: opts.Logger,
		refusals: loglimit.New(opts.Logger, 1, "reason"),
		refused:  refused, notified: notified, closing: make(chan struct{}),
		sessions: newLegacySessions(), forwarder: opts.Forwarder, replies: replies{forwarder: opts.Forwarder},
	}
}

// Drain ends the streams of all clients in the way that their revision defines. Requests in flight
// are not affected.
func (t *Transport) Drain() { t.drain.Do(func() { close(t.closing) }) }

// Wait returns when all streams that have left the HTTP server are closed. Streams whose clients do
// not read are cut off after five seconds. To be called after [Transport.Drain].
func (t *Transport) Wait() { t.hijacked.wait() }

// AwaitedReplies returns how many server requests to clients of Streamable HTTP are waiting for a
// reply.
func (t *Transport) AwaitedReplies() int { return t.replies.len() }

// recovered, deferred, logs a panic, after which only the request, stream or session ends in which
// it happened, as where net/http has started the goroutine. Then is called after one; nil does
// nothing.
func (t *Transport) recovered(ctx context.Context, then func()) {
	broke := recover()
	if broke == nil {
		return
	}
	t.logger.ErrorContext(ctx, "recovered from a panic",
		slog.Any("error", broke), slog.String("stack", string(debug.Stack())))
	if then != nil {
		then()
	}
}

// Handler serves the MCP endpoint: Streamable HTTP of both eras, decided request by request.
// Mounted at the root, it answers at the configured path, at its variants beneath, and at /sse for
// HTTP+SSE unless that is turned off.
//
//	POST    initialize, or a session id     legacy (2024-11-05 to 2025-11-25)
//	        _meta or header says so         modern (2026-07-28)
//	GET     legacy stream of notifications
//	DELETE  end of a legacy session
//
// The server's ReadTimeout should bound how long a request may take to arrive. It does not bound
// the response: the timeout is over once the body has been read.
//
// Where JWTs are accepted, the handler also serves their issuers to anybody, below /.well-known, and the
// public keys of assertions where there are some. A
// browser that opens the endpoint or the root sees how to point clients at the endpoint.
func (t *Transport) Handler() http.Handler {
	mux := http.NewServeMux()
	path := t.publisher.Current().Config.Gateway.Path // a reload that changes it is refused
	mux.Handle(path, t.handle((*exchange).serve))     // which may be a subtree
	mux.Handle(config.SSEPath, t.handle(t.sseSessions.serve))
	mux.HandleFunc(wellKnown, t.serveMetadata)
	mux.HandleFunc(wellKnown+"/", t.serveMetadata)
	mux.HandleFunc(keySetPath, t.serveKeySet)
	mux.HandleFunc("/{$}", t.serveRoot)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header[cluster.Header] != nil {
			t.serveForwarded(w, r)
			return
		}
		variant, served := variantAt(t.publisher.Current().Config, r.URL.Path, path)
		if !served { // hardly ever; the mux would take 0.7 % of a get's CPU
			mux.ServeHTTP(w, r)
			return
		}
		if x, ok := t.begin(w, r); ok { // as in handle, with a function less on the way of a get
			defer x.release()
			x.variant = variant
			x.serve()
		}
	})
}

// variantAt returns the variant whose endpoint is at a path, if that is one of them: empty for the
// endpoint itself. One slash more at the end is the same endpoint.
func variantAt(c *config.Config, path, endpoint string) (variant config.Variant, served bool) {
	beneath, served := strings.CutPrefix(path, endpoint)
	beneath = strings.TrimSuffix(beneath, "/")
	if !served || beneath == "" {
		return "", served
	}
	name, served := strings.CutPrefix(beneath, "/")
	variant = config.Variant(name)
	return variant, served && variant != "" && hasVariant(c, variant)
}

// hasVariant reports whether a variant is turned on; the endpoint itself always is.
func hasVariant(c *config.Config, variant config.Variant) bool {
	return variant == "" || slices.Contains(c.Gateway.Variants, variant)
}

// handle returns a handler of the requests that pass the origin check.
func (t *Transport) handle(serve func(*exchange)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if x, ok := t.begin(w, r); ok {
			defer x.release()
			serve(x)
		}
	}
}

// begin begins to serve a request whose header has arrived, or refuses one that fails the origin
// check, or does not fit into the memory that its client may hold.
func (t *Transport) begin(w http.ResponseWriter, r *http.Request) (x *exchange, ok bool) {
	x = &exchange{t: t, w: w, r: r, snapshot: t.publisher.Current()}
	if err := x.snapshot.Origins.Request(r); err != nil {
		x.refuse(http.StatusForbidden, nil, wire.NewError(wire.InvalidRequest, "Forbidden: "+err.Error()))
		return nil, false
	}
	// Before the bounds, so that a page can read why it was refused.
	if shareWithOrigin(w, r, x.snapshot.Origins) {
		return nil, false
	}
	x.conn = edge.FromContext(r.Context())
	if r.ProtoMajor != 2 {
		return x, true // each request takes a connection, and those have a bound
	}
	// By the address: who the caller is shows only once the message has been read.
	client := edge.AddressKey(x.clientAddress())
	if x.request, ok = x.t.ledger.Acquire(x.snapshot.Config.Gateway.MaxBuffered, client, "", requestMemory); !ok {
		x.refuseAtOnce("Too many requests of this address at once: send it again later")
		return nil, false
	}
	return x, true
}

// requestMemory is what a request in flight takes beside its body, in bytes: goroutines, buffers,
// the request to the upstream. A client may have 250 on each connection of HTTP/2.
const requestMemory = 32 << 10

// refuseAtOnce answers a request that would exceed a bound of the gateway.
func (x *exchange) refuseAtOnce(why string) {
	x.w.Header().Set("Retry-After", "1")
	x.refuse(http.StatusServiceUnavailable, nil, requests.Overloaded(why))
}

// release gives back what the exchange holds. A stream that is to stay open calls it before: its
// bound is another one.
func (x *exchange) release() {
	if x.pending.w != nil { // after a panic
		x.t.pendings.end(&x.pending)
	}
	x.response.Release()
	x.inFlight.end()
	x.request.Release()
	x.body.Release()
}
