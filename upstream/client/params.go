package client

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/trace"

	"github.com/promptweir/promptweir/upstream/wire"
)

// hopMeta are the members of _meta that belong to one hop. The client sent them to the gateway, not
// to the server.
var hopMeta = []string{ //nolint:gochecknoglobals // a constant list
	wire.MetaProtocolVersion, wire.MetaClientInfo, wire.MetaClientCapabilities, wire.MetaLogLevel,
	wire.MetaSubscriptionID, wire.MetaProgressToken,
	wire.MetaTraceParent, wire.MetaTraceState, wire.MetaBaggage,
}

// emptyObject is the JSON both of no capabilities and of no members.
const emptyObject = "{}"

// outgoingParams returns params as they go to a server of the given revision. Every member goes out
// as it came, but for _meta: it loses what was meant for the gateway, and gains what the gateway
// says for itself and its client. Params may be nil.
func outgoingParams(
	traced traceContext, revision string, self jsontext.Value, relay *Relay, progressToken int64, params wire.Object,
) jsontext.Value {
	before := params.Get("_meta")
	given := params.Object("_meta")
	meta := make(wire.Object, 0, 8) // no call has more, so that it stays on the stack
	for _, member := range given {
		if !slices.Contains(hopMeta, member.Name) {
			meta = append(meta, member)
		}
	}
	if wire.Modern(revision) {
		meta = appendModernMeta(meta, revision, self, relay, given.Get(wire.MetaClientCapabilities))
	}
	if relay.Progress {
		meta = append(meta, wire.Member{Name: wire.MetaProgressToken, Value: wire.NumberID(progressToken)})
	}
	meta = traced.appendMeta(meta)
	if len(meta) == 0 && before == nil {
		if len(params) == 0 {
			return nil
		}
		return params.JSON()
	}
	if len(meta) == 0 && string(before) != emptyObject { // nothing is left of it
		params = params.Without(func(name string) bool { return name == "_meta" })
	} else {
		params = params.With("_meta", meta.JSON())
	}
	if len(params) == 0 {
		return nil
	}
	return params.JSON()
}

// appendModernMeta appends what each request of the modern era says about its sender.
func appendModernMeta(meta wire.Object, revision string, self jsontext.Value, relay *Relay, declared jsontext.Value) wire.Object {
	if relay.Capabilities != nil {
		declared = relay.Capabilities
	}
	if declared.Kind() != '{' {
		declared = jsontext.Value(emptyObject)
	}
	meta = append(meta,
		wire.Member{Name: wire.MetaProtocolVersion, Value: wire.Quote(revision)}, wire.Member{Name: wire.MetaClientInfo, Value: self},
		wire.Member{Name: wire.MetaClientCapabilities, Value: declared})
	if relay.LogLevel != "" {
		meta = append(meta, wire.Member{Name: wire.MetaLogLevel, Value: wire.Quote(relay.LogLevel)})
	}
	return meta
}

// traceContext is what a message says about the span that it belongs to, in its headers and in
// _meta (W3C Trace Context). The zero value says nothing.
type traceContext struct{ parent, state string }

// traceContextOf returns that of the span of ctx.
func traceContextOf(ctx context.Context) traceContext {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return traceContext{}
	}
	flags := span.TraceFlags() & (trace.FlagsSampled | trace.FlagsRandom)
	return traceContext{fmt.Sprintf("00-%s-%s-%s", span.TraceID(), span.SpanID(), flags), span.TraceState().String()}
}

// setHeaders sets the headers of the trace context.
func (t traceContext) setHeaders(header http.Header) {
	if t.parent != "" {
		header.Set("Traceparent", t.parent)
	}
	if t.state != "" {
		header.Set("Tracestate", t.state)
	}
}

// appendMeta appends the members of _meta that say the same.
func (t traceContext) appendMeta(meta wire.Object) wire.Object {
	if t.parent != "" {
		meta = append(meta, wire.Member{Name: wire.MetaTraceParent, Value: wire.Quote(t.parent)})
	}
	if t.state != "" {
		meta = append(meta, wire.Member{Name: wire.MetaTraceState, Value: wire.Quote(t.state)})
	}
	return meta
}
