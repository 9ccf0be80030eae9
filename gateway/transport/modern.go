package transport

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/upstream/wire"
)

// admitModern checks a message of the modern era, in which each request stands alone, see
// [protocol].
func (x *exchange) admitModern(request *requests.Request, _ []byte) (ctx context.Context, status int, ok bool) {
	id := request.Message.ID
	request.Snapshot = x.snapshot
	if request.Message.IsRequest() {
		// Check this before authentication, which may need the issuer: the result depends only on
		// the message.
		if err := checkModern(request, x.r.Header); err != nil {
			x.refuse(http.StatusBadRequest, id, err)
			return nil, 0, false
		}
	}
	caller, ok := x.authenticate(id)
	if !ok {
		return nil, 0, false
	}
	request.Caller, request.Snapshot = caller, x.snapshot
	ctx = requests.ExtractTrace(x.r.Context(), request.Meta, x.r.Header)
	switch {
	case request.Message.IsNotification(): // the revision has no notifications over HTTP
		x.w.WriteHeader(http.StatusAccepted)
		return nil, 0, false
	case request.Message.IsResponse():
		x.refuse(http.StatusBadRequest, nil,
			wire.NewError(wire.InvalidRequest, "Responses are not accepted in this revision"))
		return nil, 0, false
	}
	switch request.Message.Method {
	case wire.Listen:
		x.serveListen(ctx, request)
		return nil, 0, false
	case wire.Discover, wire.PromptsList, wire.PromptsGet, wire.Complete:
		return ctx, http.StatusOK, true
	case wire.ToolsList, wire.ToolsCall:
		if x.variant == config.VariantTools {
			return ctx, http.StatusOK, true
		}
	default:
		if request.Supports(request.Message.Method) {
			return ctx, http.StatusOK, true
		}
	}
	// The revision has this status for unknown methods. In the legacy era it would mean that the
	// session has ended, so the status is 200 there.
	return ctx, http.StatusNotFound, true
}

// checkModern checks the requirements of the modern era: a supported revision, headers that mirror
// the body, and the client's capabilities. If header is nil, as over stdio, it checks no headers.
// It stores the client's declarations in the request.
func checkModern(request *requests.Request, header http.Header) *wire.Error {
	revision, ok := request.Meta.Text(wire.MetaProtocolVersion)
	if !ok {
		return wire.NewError(wire.InvalidParams, "Invalid params: _meta needs "+wire.MetaProtocolVersion)
	}
	if header != nil {
		if err := mirrors(header, wire.HeaderProtocolVersion, revision); err != nil {
			return err
		}
	}
	if revision != wire.Rev20260728 {
		return requests.UnsupportedVersion(revision)
	}
	if header != nil {
		if err := checkHeaders(header, request); err != nil {
			return err
		}
	}
	if request.Meta.Get(wire.MetaClientCapabilities).Kind() != '{' {
		return wire.NewError(wire.InvalidParams, "Invalid params: _meta needs "+wire.MetaClientCapabilities)
	}
	if level := request.Meta.Get(wire.MetaLogLevel); level != nil {
		if request.LogLevel, _ = wire.Text(level); wire.Severity(request.LogLevel) == 0 {
			return requests.ErrLogLevel()
		}
	}
	request.Revision = revision
	request.ResolveTool()
	request.Capabilities = wire.ReadCapabilities(request.Meta.Object(wire.MetaClientCapabilities))
	if request.WantsRelay() {
		request.Relay = requests.NewRelayQueue()
	}
	return nil
}

// checkHeaders checks the headers that mirror the body (2026-07-28, Streamable HTTP, "Server
// Validation").
func checkHeaders(header http.Header, request *requests.Request) *wire.Error {
	if err := mirrors(header, wire.HeaderMethod, request.Message.Method); err != nil {
		return err
	}
	member := ""
	switch request.Message.Method {
	case wire.PromptsGet:
		member = "name"
	case wire.ResourcesRead:
		if request.Snapshot.Skills || request.Snapshot.Links {
			member = "uri"
		}
	case wire.ToolsCall: // without tools it fails later
		if request.Variant == config.VariantTools {
			member = "name"
		}
	}
	name, ok := request.Params.Text(member)
	if !ok {
		return nil // it has no name, or fails later without one
	}
	values := header.Values(wire.HeaderName)
	if len(values) != 1 {
		return mismatch("exactly one %s header is required", wire.HeaderName)
	}
	decoded, err := wire.DecodeHeader(values[0])
	if err != nil {
		return mismatch("%s: %v", wire.HeaderName, err)
	}
	if decoded != name {
		return mismatch("%s header value %q does not match body value %q", wire.HeaderName, decoded, name)
	}
	return nil
}

func mirrors(header http.Header, name, want string) *wire.Error {
	values := header.Values(name)
	if len(values) != 1 {
		return mismatch("exactly one %s header is required", name)
	}
	if values[0] != want {
		return mismatch("%s header value %q does not match body value %q", name, values[0], want)
	}
	return nil
}

func mismatch(format string, args ...any) *wire.Error {
	return wire.NewError(wire.HeaderMismatch, "Header mismatch: "+fmt.Sprintf(format, args...))
}

// serveListen serves a subscription as an event stream.
func (x *exchange) serveListen(ctx context.Context, request *requests.Request) {
	id := request.Message.ID
	x.recorded = true
	wanted, refusal := x.t.readListen(ctx, request)
	if refusal != nil {
		x.refuse(http.StatusBadRequest, id, refusal)
		return
	}
	caller := request.Caller
	if !x.awaitTried(&caller, id) {
		return
	}
	release, ok := x.countStream(&caller, id)
	if !ok {
		return
	}
	sub, t := x.t.publisher.Subscribe(caller.Principal), x.t
	l := &listener{caller: caller, sub: sub, id: slices.Clone(id), wanted: wanted}
	// An idle stream must not keep an old snapshot or its message in memory. Over HTTP/2, servePost
	// has the request until the stream ends.
	x.snapshot, *request = nil, requests.Request{}
	x.serveStream(release, sub, caller.Principal.Expires, func(ctx context.Context, out *eventStream) {
		closing := t.listen(ctx, l, outlet{
			send:      func(message []byte) { out.event("", message) },
			keepAlive: out.comment,
			broken:    func() bool { return out.err != nil },
			variant:   x.variant,
		})
		if closing != nil {
			out.event("", closing)
		}
	})
}
