package client

import (
	"context"
	"encoding/hex"
	"net/http"

	"go.opentelemetry.io/otel/trace"

	"github.com/promptweir/promptweir/upstream/wire"
)

// traceContext is what a message says about the span that it belongs to, in its headers and in _meta (W3C Trace Context). It is made once
// for both: to pass it on is most of what a trace costs that is not sampled. A nil *traceContext says nothing.
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
