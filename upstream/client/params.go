package client

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/promptweir/promptweir/upstream/wire"
)

// hopMeta are the members of _meta that belong to one hop. The client's values are for the gateway,
// not for the server.
var hopMeta = []string{ //nolint:gochecknoglobals // a constant list
	wire.MetaProtocolVersion, wire.MetaClientInfo, wire.MetaClientCapabilities, wire.MetaLogLevel,
	wire.MetaSubscriptionID, wire.MetaProgressToken,
	wire.MetaTraceParent, wire.MetaTraceState, wire.MetaBaggage,
}

// emptyObject is a JSON object without members.
const emptyObject = "{}"

// These values are the same in all calls of the modern era, which has one revision.
var noCapabilities, quotedRevision = jsontext.Value(emptyObject), wire.Quote(wire.Rev20260728) //nolint:gochecknoglobals // constants

// extensions is the capability that declares extensions of the protocol.
const extensions = "extensions"

// outgoingParams returns the params for a server of the given revision. In _meta, the gateway's members replace the
// members of the client's hop; all other members are unchanged. params may be nil, and given as [Request.Meta]. The result is nil if it has no members.
func outgoingParams(
	ctx context.Context, revision string, self jsontext.Value, relay *Relay, progressToken int64, params, given wire.Object,
) jsontext.Value {
	before := params.Get("_meta")
	if given == nil {
		given = params.Object("_meta")
	}
	meta := make(wire.Object, 0, 8) // enough for most calls; a constant capacity keeps it on the stack
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
	case before != nil: // all of its members belonged to the client's hop
		params = params.Without(func(name string) bool { return name == "_meta" })
	}
	if len(params) == 0 {
		return nil
	}
	return params.JSON()
}

// appendModernMeta appends the members that describe the sender, which each modern request has.
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
		// The gateway relays no extensions, so servers must not use them.
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

// appendTraceContext appends the trace context of the current span (W3C Trace Context), with the
// names of the headers.
func appendTraceContext(ctx context.Context, meta wire.Object) wire.Object {
	if !trace.SpanContextFromContext(ctx).IsValid() { // the usual case, without an allocation
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
