package client

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/promptweir/promptweir/upstream/wire"
)

// hopMeta are the members of _meta that belong to one hop. The client sent them to the gateway, not to the server.
var hopMeta = []string{ //nolint:gochecknoglobals // a constant list
	wire.MetaProtocolVersion, wire.MetaClientInfo, wire.MetaClientCapabilities, wire.MetaLogLevel,
	wire.MetaSubscriptionID, wire.MetaProgressToken,
	wire.MetaTraceParent, wire.MetaTraceState, wire.MetaBaggage,
}

// ownMeta are the members of _meta that the gateway adds, without their values.
var ownMeta = struct{ revision, info, capabilities, logLevel, progress wire.Member }{ //nolint:gochecknoglobals // a constant
	revision:     wire.NewMember(wire.MetaProtocolVersion, nil),
	info:         wire.NewMember(wire.MetaClientInfo, nil),
	capabilities: wire.NewMember(wire.MetaClientCapabilities, nil),
	logLevel:     wire.NewMember(wire.MetaLogLevel, nil),
	progress:     wire.NewMember(wire.MetaProgressToken, nil),
}

// emptyObject is the JSON both of no capabilities and of no members.
const emptyObject = "{}"

// outgoingParams returns params as they go to a server of the given revision. Every member goes out as it came, but for
// _meta: it loses what was meant for the gateway, and gains what the gateway says for itself and its client. Params may be
// nil.
func outgoingParams(
	ctx context.Context, revision string, self jsontext.Value, relay *Relay, progressToken int64, params wire.Object,
) jsontext.Value {
	before := params.Get("_meta")
	given := params.Object("_meta")
	var meta wire.Object
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
	meta = appendTraceContext(ctx, meta)
	switch {
	case len(meta) > 0, string(before) == emptyObject:
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
func appendModernMeta(meta wire.Object, revision string, self jsontext.Value, relay *Relay, declared jsontext.Value) wire.Object {
	if relay.Capabilities != nil {
		declared = relay.Capabilities
	}
	if declared.Kind() != '{' {
		declared = jsontext.Value(emptyObject)
	}
	meta = append(slices.Grow(meta, 3),
		ownMeta.revision.Of(wire.Quote(revision)), ownMeta.info.Of(self), ownMeta.capabilities.Of(declared))
	if relay.LogLevel != "" {
		meta = append(meta, ownMeta.logLevel.Of(wire.Quote(relay.LogLevel)))
	}
	return meta
}

// appendTraceContext appends the trace context of ctx, if it has any.
func appendTraceContext(ctx context.Context, meta wire.Object) wire.Object {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return meta
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	for _, key := range []string{wire.MetaTraceParent, wire.MetaTraceState} {
		if value := carrier[key]; value != "" {
			meta = append(meta, wire.NewMember(key, wire.Quote(value)))
		}
	}
	return meta
}
