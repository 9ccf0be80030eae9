package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// serveModern handles a message of the modern era over HTTP: each request stands for itself.
func (g *Gateway) serveModern(w http.ResponseWriter, r *http.Request, call *request) {
	ctx, ok := g.admitModern(w, r, call)
	if !ok {
		return
	}
	status := http.StatusOK
	if !servedModern(call.message.Method) {
		status = http.StatusNotFound
	}
	g.serveRequest(ctx, w, call, status)
}

// admitModern returns the context of a request that is to be carried out. It handles all else.
func (g *Gateway) admitModern(w http.ResponseWriter, r *http.Request, call *request) (ctx context.Context, ok bool) {
	id := call.message.ID
	if call.message.IsRequest() {
		if err := checkModern(call, r.Header); err != nil {
			refuse(w, http.StatusBadRequest, id, err)
			return nil, false
		}
	}
	who, ok := g.authenticate(w, r, id)
	if !ok {
		return nil, false
	}
	call.principal = who.Principal
	ctx = extractTrace(r.Context(), call.meta, r.Header)
	switch {
	case call.message.IsNotification(): // the revision defines none over HTTP
		w.WriteHeader(http.StatusAccepted)
		return nil, false
	case call.message.IsResponse():
		refuse(w, http.StatusBadRequest, nil, wire.NewError(wire.InvalidRequest, "Responses are not accepted in this revision"))
		return nil, false
	case call.message.Method == wire.Listen:
		g.serveListen(ctx, w, r, who, call)
		return nil, false
	}
	return ctx, true
}

// servedModern reports whether a method is answered in the modern era, subscriptions/listen aside.
func servedModern(method string) bool {
	switch method {
	case wire.Discover, wire.PromptsList, wire.PromptsGet, wire.Complete:
		return true
	}
	return false
}

// checkModern holds a request against what the modern era asks of each: its revision, which must be one that is served,
// the headers that mirror the body, and the client's capabilities. Over stdio there are no headers. It stores in
// call what was said.
func checkModern(call *request, header http.Header) *wire.Error {
	revision, ok := call.meta.Text(wire.MetaProtocolVersion)
	if !ok {
		return wire.NewError(wire.InvalidParams, "Invalid params: _meta needs "+wire.MetaProtocolVersion)
	}
	if header != nil {
		if err := mirrors(header, wire.HeaderProtocolVersion, revision); err != nil {
			return err
		}
	}
	if revision != wire.Rev20260728 {
		return unsupportedVersion(revision)
	}
	if header != nil {
		if err := checkHeaders(header, call); err != nil {
			return err
		}
	}
	if call.meta.Get(wire.MetaClientCapabilities).Kind() != '{' {
		return wire.NewError(wire.InvalidParams, "Invalid params: _meta needs "+wire.MetaClientCapabilities)
	}
	if level := call.meta.Get(wire.MetaLogLevel); level != nil {
		if call.level, _ = wire.Text(level); wire.Severity(call.level) == 0 {
			return errLogLevel()
		}
	}
	call.revision, call.declared = revision, call.meta.Object(wire.MetaClientCapabilities)
	if call.mayHear() {
		call.talk = newTalk()
	}
	return nil
}

// checkHeaders holds the headers that mirror the body against it (2026-07-28, Streamable HTTP, "Server Validation").
func checkHeaders(header http.Header, call *request) *wire.Error {
	if err := mirrors(header, wire.HeaderMethod, call.message.Method); err != nil {
		return err
	}
	if call.message.Method != wire.PromptsGet {
		return nil
	}
	name, ok := call.params.Text("name")
	if !ok {
		return nil // there is nothing to mirror; the request fails for that
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

// serveListen serves a subscription: the acknowledgment, then each change, and at the gateway's own end the result.
func (g *Gateway) serveListen(ctx context.Context, w http.ResponseWriter, r *http.Request, who caller, call *request) {
	wanted, err := g.listens(ctx, call)
	if err != nil {
		refuse(w, http.StatusBadRequest, call.message.ID, err)
		return
	}
	g.settle(ctx, who.Principal)        // a gateway that just began has no news for those who come back to it
	id := slices.Clone(call.message.ID) // the rest of the request is let go of
	sub := g.subscribe(who.Principal)
	expires := who.Expires
	g.serveDetached(w, r, func(ctx context.Context, out *eventStream) {
		defer g.leave(sub)
		ctx, end := until(ctx, expires)
		defer end()
		out.event("", acknowledgment(id, wanted))
		changed := subscribed(wire.PromptsListChanged, id, nil)
		drained := g.stream(ctx, out, &who, sub, func() {
			if wanted {
				out.event("", changed)
			}
		})
		if drained || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			out.event("", g.closure(id))
		}
	})
}

// listens reports whether a subscriptions/listen request asks for changes of the list of prompts. Its span is over
// when the stream begins.
func (g *Gateway) listens(ctx context.Context, call *request) (wanted bool, err *wire.Error) {
	g.metrics.start(ctx, call)
	filter := call.params.Get("notifications")
	if filter.Kind() != '{' {
		err = wire.NewError(wire.InvalidParams, "Invalid params: notifications must be an object")
		call.end(err)
		return false, err
	}
	call.end(nil)
	return call.params.Object("notifications").Get("promptsListChanged").Kind() == 't', nil
}

// acknowledgment is the first message of a subscription: what of the wish is granted.
func acknowledgment(id jsontext.Value, wanted bool) []byte {
	granted := wire.Object{}
	if wanted {
		granted = granted.With("promptsListChanged", jsontext.Value("true"))
	}
	return subscribed(wire.Acknowledged, id, wire.Object{}.With("notifications", granted.JSON()))
}

// subscribed is a notification that belongs to a subscription.
func subscribed(method string, id jsontext.Value, params wire.Object) []byte {
	meta := wire.Object{}.With(wire.MetaSubscriptionID, id)
	return wire.AppendNotification(nil, method, params.With("_meta", meta.JSON()).JSON())
}

// closure is the response that ends a subscription gracefully.
func (g *Gateway) closure(id jsontext.Value) []byte {
	meta := wire.Object{}.With(wire.MetaSubscriptionID, id).With(wire.MetaServerInfo, g.info)
	result := wire.Object{}.With("resultType", wire.Quote(wire.ResultComplete)).With("_meta", meta.JSON())
	return wire.AppendResult(nil, id, result.JSON())
}
