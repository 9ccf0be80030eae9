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
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/upstream/loglimit"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Transport serves the gateway's clients. Make it with [New]. Its methods are safe for concurrent
// use.
type Transport struct {
	publisher *publish.Publisher
	requests  *requests.Handler
	ledger    *edge.Ledger
	logger    *slog.Logger
	// refusals logs refused credentials. It is limited in rate, because anyone can send any number of
	// bad credentials.
	refusals *slog.Logger
	// refused is the metric promptweir.identity.refused.
	refused metric.Int64Counter
	// notified is the metric promptweir.notification.duration, in seconds.
	notified metric.Float64Histogram

	// The state of the legacy sessions of Streamable HTTP.
	inFlight inFlight
	replies  replies
	sessions *legacySessions

	forwarder *cluster.Forwarder // nil if requests are not forwarded

	sseSessions sseSessions
	pendings    pendings
	closing     chan struct{} // closed by Drain
	drain       sync.Once
}

// Options configure a [Transport].
type Options struct {
	Logger *slog.Logger
	// Ledger counts the memory, connections and streams of clients.
	Ledger *edge.Ledger
	// Forwarder forwards requests to other replicas. It is nil if requests are not forwarded.
	Forwarder *cluster.Forwarder
}

// New returns a transport that passes requests to the handler.
func New(publisher *publish.Publisher, handler *requests.Handler, opts Options) *Transport {
	meter := otel.Meter(requests.InstrumentationScope)
	refused, err := meter.Int64Counter("promptweir.identity.refused",
		metric.WithUnit("{credential}"), metric.WithDescription("Refused credentials, by "+
			"reason: bad, scope, unavailable, or rate_limited."))
	if err != nil {
		otel.Handle(err) // cannot happen: the name is valid
	}
	notified, err := meter.Float64Histogram("promptweir.notification.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from the use of a changed list to its notification on a client's stream."),
		metric.WithExplicitBucketBoundaries(0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
			1, 2, 5, 10, 30, 60, 120, 300))
	if err != nil {
		otel.Handle(err) // cannot happen: the name is valid
	}
	return &Transport{
		publisher: publisher, requests: handler, ledger: opts.Ledger, logger: opts.Logger,
		refusals: loglimit.New(opts.Logger, 1, "reason"),
		refused:  refused, notified: notified, closing: make(chan struct{}),
		sessions: newLegacySessions(), forwarder: opts.Forwarder, replies: replies{forwarder: opts.Forwarder},
	}
}

// Drain ends the streams of all clients as their revision requires. Requests in flight continue.
func (t *Transport) Drain() { t.drain.Do(func() { close(t.closing) }) }

// AwaitedReplies returns the number of server requests to clients of Streamable HTTP that wait for
// a reply.
func (t *Transport) AwaitedReplies() int { return t.replies.len() }

// recovered recovers from a panic and logs it, so that only the request, stream or session ends. Defer
// it on each goroutine that net/http does not protect. After a panic, it calls the function then,
// which may be nil.
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

// Handler returns the handler of the MCP endpoint. It serves Streamable HTTP in both eras; each request
// determines its era. The endpoint is at the configured path, its variants are below that path, and
// HTTP+SSE is at /sse unless it is off.
//
//	POST    initialize, or a session id     legacy (2024-11-05 to 2025-11-25)
//	        modern by _meta or header       modern (2026-07-28)
//	GET     legacy stream of notifications
//	DELETE  end of a legacy session
//
// The HTTP server's ReadTimeout should bound the arrival of a request. It does not bound the response.
//
// Below /.well-known, the handler also serves the protected resource metadata, if JWTs are accepted,
// and the public keys for assertions, if there are any. A browser at the endpoint or the root gets a
// page about connecting clients.
func (t *Transport) Handler() http.Handler {
	mux := http.NewServeMux()
	path := t.publisher.Current().Config.Gateway.Path // constant: a reload that changes the path is refused
	mux.Handle(path, t.handle((*exchange).serve))     // the path may end in a slash and match a subtree
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
		if !served {
			mux.ServeHTTP(w, r)
			return
		}
		// Serve the endpoint without the mux, which takes 0.7 % of the CPU of a get.
		if x, ok := t.begin(w, r); ok {
			defer x.release()
			x.variant = variant
			x.serve()
		}
	})
}

// variantAt returns the variant at a path. The variant is empty for the plain endpoint. served is
// false if no endpoint is at the path. A final slash is ignored.
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

// hasVariant reports whether a variant is on. The plain endpoint is always on.
func hasVariant(c *config.Config, variant config.Variant) bool {
	return variant == "" || slices.Contains(c.Gateway.Variants, variant)
}

// handle returns a handler that calls serve for each request that begin accepts.
func (t *Transport) handle(serve func(*exchange)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if x, ok := t.begin(w, r); ok {
			defer x.release()
			serve(x)
		}
	}
}

// begin returns the exchange of a request whose header has arrived. It responds and returns false if
// the request fails the origin check, is a preflight request, or exceeds the client's memory.
func (t *Transport) begin(w http.ResponseWriter, r *http.Request) (x *exchange, ok bool) {
	x = &exchange{t: t, w: w, r: r, snapshot: t.publisher.Current()}
	if err := x.snapshot.Origins.Request(r); err != nil {
		x.refuse(http.StatusForbidden, nil, wire.NewError(wire.InvalidRequest, "Forbidden: "+err.Error()))
		return nil, false
	}
	// Set the CORS headers before the bounds are checked: a page must be able to read a refusal.
	if shareWithOrigin(w, r, x.snapshot.Origins) {
		return nil, false
	}
	x.conn = edge.FromContext(r.Context())
	if r.ProtoMajor != 2 {
		return x, true // the bound on connections also bounds requests of HTTP/1.1
	}
	// Count the memory for the address: the principal is not known yet.
	client := edge.AddressKey(x.clientAddress())
	if x.scope.Connection, ok = x.t.ledger.Acquire(x.snapshot.Config.Gateway.MaxBuffered, client, "", requestMemory); !ok {
		w.Header().Set("Retry-After", "1")
		x.refuse(http.StatusServiceUnavailable, nil, requests.Overloaded("Too many requests of this address at once: send it again later"))
		return nil, false
	}
	return x, true
}

// requestMemory is the memory of a request in flight without its body, in bytes: goroutines, buffers,
// the request to the upstream. It counts over HTTP/2, where a connection may have 250 requests.
const requestMemory = 32 << 10

// release releases everything that the exchange holds. countStream calls release early for a stream,
// because another bound limits streams.
func (x *exchange) release() {
	if x.pending.w != nil { // after a panic
		x.t.pendings.end(&x.pending)
	}
	x.scope.Close()
}
