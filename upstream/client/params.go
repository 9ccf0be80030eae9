package client

import (
	"context"
	"encoding/hex"
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

// ownMeta are the members of _meta that the gateway adds, without their values.
var ownMeta = struct{ revision, info, capabilities, logLevel, progress, traceParent, traceState wire.Member }{ //nolint:gochecknoglobals // a constant
	revision:     wire.NewMember(wire.MetaProtocolVersion, nil),
	info:         wire.NewMember(wire.MetaClientInfo, nil),
	capabilities: wire.NewMember(wire.MetaClientCapabilities, nil),
	logLevel:     wire.NewMember(wire.MetaLogLevel, nil),
	progress:     wire.NewMember(wire.MetaProgressToken, nil),
	traceParent:  wire.NewMember(wire.MetaTraceParent, nil),
	traceState:   wire.NewMember(wire.MetaTraceState, nil),
}

// metaMember is _meta itself, without its value.
var metaMember = wire.NewMember("_meta", nil) //nolint:gochecknoglobals // a constant

// emptyObject is the JSON both of no capabilities and of no members.
const emptyObject = "{}"

// outgoingParams returns params as they go to a server of the given revision. Every member goes out
// as it came, but for _meta: it loses what was meant for the gateway, and gains what the gateway
// says for itself and its client. Params may be nil.
func outgoingParams(
	traced *traceContext, revision string, self jsontext.Value, relay *Relay, progressToken int64, params wire.Object,
) jsontext.Value {
	// Room for the usual number of members, which the stack has: this is done for each call.
	const usualParams, usualMeta = 4, 8
	before := params.Get("_meta")
	given := params.Object("_meta")
	meta := make(wire.Object, 0, usualMeta)
	for _, member := range given {
		if !slices.Contains(hopMeta, member.Name) {
			meta = append(meta, member)
		}
	}
	if wire.Modern(revision) {
		meta = appendModernMeta(meta, revision, self, relay, given.Get(wire.MetaClientCapabilities))
	}
	if relay.Progress {
		meta = append(meta, ownMeta.progress.Of(wire.NumberID(progressToken)))
	}
	meta = traced.appendMeta(meta)
	if len(meta) == 0 && before == nil {
		if len(params) == 0 {
			return nil
		}
		return params.JSON()
	}
	outgoing := make(wire.Object, 0, usualParams)
	for _, member := range params {
		if member.Name != metaMember.Name {
			outgoing = append(outgoing, member)
		} else if len(meta) > 0 || string(before) == emptyObject { // else nothing is left of it
			outgoing = append(outgoing, member.Of(nil))
		}
	}
	if before == nil {
		outgoing = append(outgoing, metaMember)
	}
	if len(outgoing) == 0 {
		return nil
	}
	return outgoing.AppendBy(make([]byte, 0, outgoing.Size()+meta.Size()), func(dst []byte, value jsontext.Value) []byte {
		if value == nil { // that of _meta, which needs no memory of its own
			return meta.Append(dst)
		}
		return append(dst, value...)
	})
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
		ownMeta.revision.Of(wire.Quote(revision)), ownMeta.info.Of(self), ownMeta.capabilities.Of(declared))
	if relay.LogLevel != "" {
		meta = append(meta, ownMeta.logLevel.Of(wire.Quote(relay.LogLevel)))
	}
	return meta
}

// traceContext is what a message says about the span that it belongs to, in its headers and in
// _meta (W3C Trace Context). It is made once for both: to pass it on is most of what a trace costs
// that is not sampled. A nil *traceContext says nothing.
type traceContext struct {
	parent, state [1]string // as headers have them
	quoted        [len(`"`) + traceParentLength + len(`"`)]byte
}

const traceParentLength = len("00-") + 32 + len("-") + 16 + len("-01")

// traceContextOf returns that of the span of ctx, nil if there is none.
func traceContextOf(ctx context.Context) *traceContext {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return nil
	}
	t := &traceContext{state: [1]string{span.TraceState().String()}}
	traceID, spanID := span.TraceID(), span.SpanID()
	text := append(t.quoted[:0], `"00-`...)
	text = append(hex.AppendEncode(text, traceID[:]), '-')
	text = append(hex.AppendEncode(text, spanID[:]), '-')
	text = hex.AppendEncode(text, []byte{byte(span.TraceFlags() & (trace.FlagsSampled | trace.FlagsRandom))})
	t.parent[0] = string(append(text, '"')[1 : 1+traceParentLength])
	return t
}

// setHeaders sets the headers of the trace context.
func (t *traceContext) setHeaders(header http.Header) {
	if t == nil {
		return
	}
	header["Traceparent"] = t.parent[:]
	if t.state[0] != "" {
		header["Tracestate"] = t.state[:]
	}
}

// appendMeta appends the members of _meta that say the same.
func (t *traceContext) appendMeta(meta wire.Object) wire.Object {
	if t == nil {
		return meta
	}
	meta = append(meta, ownMeta.traceParent.Of(t.quoted[:]))
	if t.state[0] != "" {
		meta = append(meta, ownMeta.traceState.Of(wire.Quote(t.state[0])))
	}
	return meta
}
