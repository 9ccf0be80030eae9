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

// admitModern implements [protocol].admit for the modern era.
func (x *exchange) admitModern(request *requests.Request, _ []byte) (ctx context.Context, status int, ok bool) {
	id := request.Message.ID
	request.Snapshot = x.snapshot
	if request.Message.IsRequest() {
		// Check the message before authentication, which may have to fetch an issuer's keys.
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
	case request.Message.IsNotification(): // ignore the notification: this revision has none over HTTP
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
	// This revision requires 404 for unknown methods. In the legacy era, 404 means that the session has
	// ended.
	return ctx, http.StatusNotFound, true
}

// checkModern checks the metadata of a modern request: the revision, the headers that mirror the body,
// the client's capabilities and the log level. It stores them in the request. If header is nil, as over
// stdio, it checks no headers.
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

// checkHeaders checks that Mcp-Method and Mcp-Name mirror the body (2026-07-28, Streamable HTTP,
// "Server Validation").
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
	case wire.ToolsCall: // at other endpoints, the handler responds that the method is unknown
		if request.Variant == config.VariantTools {
			member = "name"
		}
	}
	name, ok := request.Params.Text(member)
	if !ok {
		return nil // the method needs no Mcp-Name, or the handler will refuse the missing name
	}
	return mirrors(header, wire.HeaderName, name)
}

// mirrors returns an error unless the request has exactly one header with the given name, and the
// value of that header is want.
func mirrors(header http.Header, name, want string) *wire.Error {
	values := header[name]
	if len(values) != 1 {
		return mismatch("exactly one %s header is required", name)
	}
	value := values[0]
	if name == wire.HeaderName { // clients encode only this header
		var err error
		if value, err = wire.DecodeHeader(value); err != nil {
			return mismatch("%s: %v", name, err)
		}
	}
	if value != want {
		return mismatch("%s header value %q does not match body value %q", name, value, want)
	}
	return nil
}

func mismatch(format string, args ...any) *wire.Error {
	return wire.NewError(wire.HeaderMismatch, "Header mismatch: "+fmt.Sprintf(format, args...))
}

// serveListen serves a subscriptions/listen request as an event stream.
func (x *exchange) serveListen(ctx context.Context, request *requests.Request) {
	id := request.Message.ID
	x.recorded = true
	listChanged, refusal := x.t.readListen(ctx, request)
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
	l := &listener{caller: caller, sub: sub, id: slices.Clone(id), listChanged: listChanged}
	// Free the snapshot and the message while the stream is open: servePost refers to the request until
	// the stream ends.
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
