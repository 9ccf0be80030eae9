package client

import (
	"context"
	"encoding/hex"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/trace"

	"github.com/promptweir/promptweir/upstream/wire"
)

// traceContext is what a message says about the span that it belongs to, in its headers and in _meta (W3C Trace Context). It is made once
// for both: to pass it on is most of what a trace costs that is not sampled. A nil *traceContext says nothing.
type traceContext struct {
	parent, state [1]string // as headers have them
}

// traceContextOf returns that of the span of ctx, nil if there is none.
func traceContextOf(ctx context.Context) *traceContext {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return nil
	}
	const length = len("00-") + 32 + len("-") + 16 + len("-01")
	var text [length]byte
	traceID, spanID := span.TraceID(), span.SpanID()
	parent := append(text[:0], "00-"...)
	parent = append(hex.AppendEncode(parent, traceID[:]), '-')
	parent = append(hex.AppendEncode(parent, spanID[:]), '-')
	parent = hex.AppendEncode(parent, []byte{byte(span.TraceFlags() & (trace.FlagsSampled | trace.FlagsRandom))})
	return &traceContext{[1]string{string(parent)}, [1]string{span.TraceState().String()}}
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
	meta = append(meta, ownMeta.traceParent.Of(jsontext.Value(`"`+t.parent[0]+`"`))) // has nothing that would be escaped
	if t.state[0] != "" {
		meta = append(meta, ownMeta.traceState.Of(wire.Quote(t.state[0])))
	}
	return meta
}
