package client

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/propagation"
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

// Each call of the modern era says these. It has one revision.
var noCapabilities, quotedRevision = jsontext.Value(emptyObject), wire.Quote(wire.Rev20260728) //nolint:gochecknoglobals // constants

// extensions is the capability in which a client declares extensions of the protocol.
const extensions = "extensions"

// outgoingParams returns params as they go to a server of the given revision. Every member goes out
// as it came, but for _meta: it loses what was meant for the gateway, and gains what the gateway
// says for itself and its client. Params may be nil.
func outgoingParams(
	ctx context.Context, revision string, self jsontext.Value, relay *Relay, progressToken int64, params wire.Object,
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
		meta = appendModernMeta(meta, self, relay, given.Get(wire.MetaClientCapabilities))
	}
	if relay.Progress {
		meta = append(meta, wire.Member{Name: wire.MetaProgressToken, Value: wire.NumberID(progressToken)})
	}
	meta = appendTraceContext(ctx, meta)
	switch {
	case len(meta) > 0 || string(before) == emptyObject:
		params = params.With("_meta", meta.JSON())
	case before != nil: // nothing is left of it
		params = params.Without(func(name string) bool { return name == "_meta" })
	}
	if len(params) == 0 {
		return nil
	}
	return params.JSON()
}

// appendModernMeta appends what each request of the modern era says about its sender.
func appendModernMeta(
	meta wire.Object, self jsontext.Value, relay *Relay, declared jsontext.Value,
) wire.Object {
	if relay.Capabilities != nil {
		declared = relay.Capabilities
	}
	if declared.Kind() != '{' {
		declared = noCapabilities
	}
	if object := wire.Members(declared); object.Get(extensions) != nil {
		// The gateway relays no extension, so that a server which relied on one would speak past it.
		declared = object.Without(func(name string) bool { return name == extensions }).JSON()
	}
	meta = append(meta,
		wire.Member{Name: wire.MetaProtocolVersion, Value: quotedRevision}, wire.Member{Name: wire.MetaClientInfo, Value: self},
		wire.Member{Name: wire.MetaClientCapabilities, Value: declared})
	if relay.LogLevel != "" {
		meta = append(meta, wire.Member{Name: wire.MetaLogLevel, Value: wire.Quote(relay.LogLevel)})
	}
	return meta
}

// appendTraceContext appends what a message says about the span that it belongs to (W3C Trace
// Context), as its headers do.
func appendTraceContext(ctx context.Context, meta wire.Object) wire.Object {
	if !trace.SpanContextFromContext(ctx).IsValid() { // most often: no carrier is needed then
		return meta
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	for _, name := range []string{wire.MetaTraceParent, wire.MetaTraceState} {
		if value := carrier[name]; value != "" {
			meta = append(meta, wire.Member{Name: name, Value: wire.Quote(value)})
		}
	}
	return meta
}
