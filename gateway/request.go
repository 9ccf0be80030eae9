package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// request is one client's request after its transport has checked it.
type request struct {
	// begun is when it had been read, and answered when its response was made.
	begun, answered time.Time

	message wire.Message
	params  wire.Object
	meta    wire.Object // of the params
	// revision is the one that the client speaks.
	revision  string
	principal policy.Principal
	// declared are the capabilities by which the client can be asked for input while the request is in flight, level is
	// from which severity on it wants log messages, none where it is empty.
	declared wire.Object
	level    string
	// setLevel changes the level for the requests that follow in the session; nil where there is none.
	setLevel func(level string)
	// talk takes what is to be said to the client before the response, and ask asks a client of the legacy era. Both are
	// nil where that cannot be.
	talk *talk
	ask  func(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error)
	// client returns the address that the request came from; nil over stdio, and where nobody takes spans.
	client func() string
	// screen holds what the upstream says during the request against the screen blocks; nil where there are none.
	screen func(jsontext.Value) (said jsontext.Value, ok bool)
	// cut takes the large part of a response.
	cut cut
	// operation is what is measured of it, once that has begun.
	operation operation
}

// minCut is from how many bytes on it pays to write a result from where it is.
const minCut = 32 << 10

// cut is the large part of a response that is not copied into it, and where it belongs.
type cut struct {
	// wanted is set where the transport can write a response in parts.
	wanted bool
	at     int
	part   jsontext.Value
}

// splice appends JSON to dst, or notes that it belongs there. A cut takes one part, where it is wanted.
func (c *cut) splice(dst []byte, part jsontext.Value) []byte {
	if !c.wanted || c.part != nil || len(part) < minCut {
		return append(dst, part...)
	}
	c.at, c.part = len(dst), part
	return dst
}

// requests are reused: of a list, nothing else costs as much memory.
var requests = sync.Pool{New: func() any { return new(request) }} //nolint:gochecknoglobals // a pool is shared by nature

// release gives the memory of a request that has been answered to the next, if it never left the goroutine that carried
// it out. What asks an upstream may still be held there.
func (r *request) release() {
	if r.message.Method == wire.PromptsList && r.talk == nil {
		*r = request{}
		requests.Put(r)
	}
}

// readRequest reads one message. Beside an error the request has the message's id, where that much could be read.
func readRequest(raw []byte) (*request, *wire.Error) {
	message, err := wire.Parse(raw)
	r, _ := requests.Get().(*request)
	r.begun, r.message = time.Now(), message
	if err != nil {
		return r, asWireError(err)
	}
	if message.Params == nil {
		return r, nil
	}
	r.params = wire.Members(message.Params)
	r.meta = r.params.Object("_meta")
	return r, nil
}

// asWireError is the error for a client whose message could not be read.
func asWireError(err error) *wire.Error {
	if wireErr, ok := errors.AsType[*wire.Error](err); ok {
		return wireErr
	}
	return wire.NewError(wire.ParseError, "Parse error: "+err.Error())
}

// claimsModern reports whether the message itself says that it is of the modern era.
func (r *request) claimsModern() bool { return r.meta.Get(wire.MetaProtocolVersion) != nil }

func (r *request) modern() bool { return wire.Modern(r.revision) }

// emptyLists are what clients of the legacy era get for lists that were never declared: some ask all the same, and
// drop the whole server for an error.
var emptyLists = map[string]jsontext.Value{ //nolint:gochecknoglobals // a constant table
	wire.ToolsList:     jsontext.Value(`{"tools":[]}`),
	wire.ResourcesList: jsontext.Value(`{"resources":[]}`),
	wire.TemplatesList: jsontext.Value(`{"resourceTemplates":[]}`),
}

// respond carries a request out and appends the response to dst, whatever it is. Code is that of an error, else 0.
func (g *Gateway) respond(ctx context.Context, dst []byte, r *request) (response []byte, code int64) {
	ctx = g.metrics.start(ctx, r)
	head := wire.AppendResultHead(dst, r.message.ID)
	result, err := g.result(ctx, head, r)
	r.end(err)
	if err != nil {
		return g.respondError(ctx, head[:len(dst)], r, err)
	}
	return append(result, '}'), 0
}

// respondError appends the response to a request that failed.
func (g *Gateway) respondError(ctx context.Context, dst []byte, r *request, err error) (response []byte, code int64) {
	wireErr := g.wireError(ctx, err)
	r.cut = cut{}
	return wire.AppendError(dst, r.message.ID, wireErr), wireErr.Code
}

// unbroken, deferred, makes an error of a panic. Requests are answered by goroutines of the gateway's own, too, where a
// panic would end everybody's and not only, as in a handler of the HTTP server, the one that it happened to.
func unbroken(err *error) {
	if broke := recover(); broke != nil {
		*err = fmt.Errorf("panic: %v\n%s", broke, debug.Stack())
	}
}

// maxParams bounds the members of a request's params.
const maxParams = 1000

// checkSpelling refuses params that another reader could take for others: a member that differs from one that decides
// something in the case of its letters only. A server that does not mind the case would read that one.
func (r *request) checkSpelling() error {
	if len(r.params) > maxParams {
		return wire.NewError(wire.InvalidParams, "Invalid params: too many members")
	}
	odd := r.params.Folded("name", "arguments", "ref", "argument", "context", "cursor", "_meta", memberState, memberResponses)
	if odd == "" {
		odd = r.params.Object("ref").Folded("type", "name", "uri")
	}
	if odd == "" {
		odd = r.params.Object("argument").Folded("name", "value")
	}
	if odd != "" {
		return wire.NewError(wire.InvalidParams, fmt.Sprintf("Invalid params: %q is spelled like another member but for its case", odd))
	}
	return nil
}

// result appends the result of a request to dst.
func (g *Gateway) result(ctx context.Context, dst []byte, r *request) (result []byte, err error) {
	defer unbroken(&err)
	if err := r.checkSpelling(); err != nil {
		return dst, err
	}
	switch r.message.Method {
	case wire.PromptsList:
		return g.list(ctx, dst, r)
	case wire.PromptsGet, wire.Complete:
		return g.untilAsked(ctx, dst, r)
	}
	if r.modern() {
		if r.message.Method == wire.Discover {
			return append(dst, g.discovery()...), nil
		}
		return dst, methodNotFound(r.message.Method)
	}
	switch r.message.Method {
	case wire.Ping:
		return append(dst, "{}"...), nil
	case wire.SetLogLevel:
		return g.setLogLevel(dst, r)
	case wire.ToolsList, wire.ResourcesList, wire.TemplatesList:
		return append(dst, emptyLists[r.message.Method]...), nil
	}
	return dst, methodNotFound(r.message.Method)
}

// setLogLevel carries logging/setLevel out, on this replica.
func (g *Gateway) setLogLevel(dst []byte, r *request) ([]byte, error) {
	level, _ := r.params.Text("level")
	if wire.Severity(level) == 0 {
		return dst, errLogLevel()
	}
	if r.setLevel != nil {
		r.setLevel(level)
	}
	return append(dst, "{}"...), nil
}

func errLogLevel() *wire.Error {
	return wire.NewError(wire.InvalidParams, "Invalid params: the log level is not one of the protocol's")
}

func methodNotFound(method string) *wire.Error {
	return wire.NewError(wire.MethodNotFound, "Method not found: "+method)
}

// wireError turns whatever went wrong into the error that the client gets: an upstream's own as it was sent, and of
// everything else the kind only. The cause is for the log.
func (g *Gateway) wireError(ctx context.Context, err error) *wire.Error {
	if wireErr, ok := errors.AsType[*wire.Error](err); ok {
		return wireErr
	}
	if ctx.Err() != nil { // nobody is waiting for this, but a transport may have to say something
		return wire.NewError(wire.InternalError, "Request cancelled")
	}
	unavailable, ok := errors.AsType[*upstream.Unavailable](err)
	if !ok {
		g.logger.ErrorContext(ctx, "request failed", slog.Any("error", err))
		return wire.NewError(wire.InternalError, "Internal error")
	}
	level := slog.LevelWarn
	if unavailable.Reason == upstream.BreakerOpen { // of which the breaker has said that it is
		level = slog.LevelDebug
	}
	g.logger.Log(ctx, level, "no answer from upstream", slog.String("upstream", unavailable.Upstream),
		slog.String("reason", string(unavailable.Reason)), slog.Any("error", unavailable.Err))
	message := fmt.Sprintf("Upstream %s did not answer: %s", unavailable.Upstream, unavailable.Reason)
	if unavailable.Upstream == "" {
		message = fmt.Sprintf("No upstream has answered yet: %s", unavailable.Reason)
	}
	return wire.NewError(wire.InternalError, message).WithData(unavailableData(unavailable))
}

// defaultRetryMs is the hint of an error that knows no better.
const defaultRetryMs = 1000

func unavailableData(u *upstream.Unavailable) jsontext.Value {
	retry := u.RetryAfter.Milliseconds()
	if retry <= 0 {
		retry = defaultRetryMs
	}
	data := wire.Object{}
	if u.Upstream != "" {
		data = data.With("upstream", wire.Quote(u.Upstream))
	}
	return data.With("reason", wire.Quote(string(u.Reason))).With("retryAfterMs", wire.NumberID(retry)).JSON()
}

// capabilities are what the gateway declares to a client of the revision. Completions could not be declared in
// 2024-11-05.
func capabilities(revision string) jsontext.Value {
	declared := wire.Object{}.
		With("prompts", jsontext.Value(`{"listChanged":true}`)).
		With("logging", jsontext.Value("{}"))
	if revision != wire.Rev20241105 {
		declared = declared.With("completions", jsontext.Value("{}"))
	}
	return declared.JSON()
}

// serverInfo is the Implementation of a gateway of the version.
func serverInfo(version string) jsontext.Value {
	if version == "" {
		version = "0"
	}
	return wire.Object{}.With("name", wire.Quote(Name)).With("version", wire.Quote(version)).JSON()
}

// initialization is the result of initialize for a client that settled on the revision.
func (g *Gateway) initialization(revision string) jsontext.Value {
	result := wire.Object{}.
		With("protocolVersion", wire.Quote(revision)).
		With("capabilities", capabilities(revision)).
		With("serverInfo", g.info)
	if text := g.setup().cfg.Gateway.Instructions; text != "" {
		result = result.With("instructions", wire.Quote(text))
	}
	return result.JSON()
}

// discoveryTTL is how long a client may rely on what server/discover said, in milliseconds.
const discoveryTTL = "3600000"

// discovery is the result of server/discover.
func (g *Gateway) discovery() jsontext.Value {
	result := wire.Object{}.
		With("resultType", wire.Quote(wire.ResultComplete)).
		With("supportedVersions", supportedVersions()).
		With("capabilities", capabilities(wire.Rev20260728)).
		With("_meta", wire.Object{}.With(wire.MetaServerInfo, g.info).JSON())
	if text := g.setup().cfg.Gateway.Instructions; text != "" {
		result = result.With("instructions", wire.Quote(text))
	}
	return result.With("ttlMs", jsontext.Value(discoveryTTL)).With("cacheScope", wire.Quote("public")).JSON()
}

// supportedVersions is every revision, newest first, as a JSON array.
func supportedVersions() jsontext.Value {
	list := []byte{'['}
	for i, revision := range wire.Revisions() {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, wire.Quote(revision)...)
	}
	return append(list, ']')
}

// negotiate picks the revision that answers a client's initialize: its own where it is a legacy one that is known.
func negotiate(requested string) string {
	if wire.KnownLegacy(requested) {
		return requested
	}
	return wire.LatestLegacy
}
