package upstream

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/promptweir/promptweir/upstream/wire"
)

// hopMeta are the members of _meta that belong to one hop: the gateway's client sent them to the gateway.
var hopMeta = []string{ //nolint:gochecknoglobals // a constant list
	wire.MetaProtocolVersion, wire.MetaClientInfo, wire.MetaClientCapabilities, wire.MetaLogLevel,
	wire.MetaSubscriptionID, wire.MetaProgressToken,
	wire.MetaTraceParent, wire.MetaTraceState, wire.MetaBaggage,
}

// ownMeta are the members of _meta that the gateway says itself, without their values.
var ownMeta = struct{ revision, info, capabilities, logLevel, progress wire.Member }{ //nolint:gochecknoglobals // a constant
	revision:     wire.NewMember(wire.MetaProtocolVersion, nil),
	info:         wire.NewMember(wire.MetaClientInfo, nil),
	capabilities: wire.NewMember(wire.MetaClientCapabilities, nil),
	logLevel:     wire.NewMember(wire.MetaLogLevel, nil),
	progress:     wire.NewMember(wire.MetaProgressToken, nil),
}

// emptyObject is both the JSON of "no capabilities" and of "no members".
const emptyObject = "{}"

// setParams gives a request on behalf of a client its params.
func (s *Session) setParams(ctx context.Context, r *request, client *Client, params wire.Object) {
	r.params = outgoingParams(ctx, s.Revision, s.self, client, r.id, params)
}

// outgoingParams returns params as they go to a peer of the given revision: every member as it is but _meta, which
// loses what was said to the gateway and gains what the gateway says: its revision and name, and what the client can do
// and wants logged, where the era asks for them on each request, the token of its progress where the client wants that,
// and the trace context of ctx. Params may be nil.
func outgoingParams(
	ctx context.Context, revision string, self jsontext.Value, client *Client, token int64, params wire.Object,
) jsontext.Value {
	before := params.Get("_meta")
	given := params.Object("_meta")
	declared := given.Get(wire.MetaClientCapabilities)
	if client.Capabilities != nil {
		declared = client.Capabilities
	}
	if declared.Kind() != '{' {
		declared = jsontext.Value(emptyObject)
	}
	var meta wire.Object
	for _, member := range given {
		if !slices.Contains(hopMeta, member.Name) {
			meta = append(meta, member)
		}
	}
	if wire.Modern(revision) {
		meta = append(slices.Grow(meta, 3), ownMeta.revision.Of(wire.Quote(revision)), ownMeta.info.Of(self), ownMeta.capabilities.Of(declared))
		if client.LogLevel != "" {
			meta = append(meta, ownMeta.logLevel.Of(wire.Quote(client.LogLevel)))
		}
	}
	if client.Progress {
		meta = append(meta, ownMeta.progress.Of(wire.NumberID(token)))
	}
	if trace.SpanContextFromContext(ctx).IsValid() {
		carrier := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, carrier)
		for _, key := range []string{wire.MetaTraceParent, wire.MetaTraceState} {
			if value := carrier[key]; value != "" {
				meta = append(meta, wire.NewMember(key, wire.Quote(value)))
			}
		}
	}
	switch {
	case len(meta) > 0, string(before) == emptyObject:
		params = params.With("_meta", meta.JSON())
	case before != nil: // all that was there was the gateway's own
		params = params.Without(func(name string) bool { return name == "_meta" })
	}
	if len(params) == 0 {
		return nil
	}
	return params.JSON()
}
