package upstream

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/propagation"

	"github.com/promptweir/promptweir/upstream/wire"
)

// hopMeta are the members of _meta that belong to one hop: the gateway's client sent them to the gateway.
var hopMeta = []string{ //nolint:gochecknoglobals // a constant list
	wire.MetaProtocolVersion, wire.MetaClientInfo, wire.MetaClientCapabilities, wire.MetaLogLevel,
	wire.MetaSubscriptionID, wire.MetaProgressToken,
	wire.MetaTraceParent, wire.MetaTraceState, wire.MetaBaggage,
}

// emptyObject is both the JSON of "no capabilities" and of "no members".
const emptyObject = "{}"

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
	meta := given.Without(func(name string) bool { return slices.Contains(hopMeta, name) })
	if wire.Modern(revision) {
		meta = meta.With(wire.MetaProtocolVersion, wire.Quote(revision)).
			With(wire.MetaClientInfo, self).
			With(wire.MetaClientCapabilities, declared)
		if client.LogLevel != "" {
			meta = meta.With(wire.MetaLogLevel, wire.Quote(client.LogLevel))
		}
	}
	if client.Progress {
		meta = meta.With(wire.MetaProgressToken, wire.NumberID(token))
	}
	trace := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, trace)
	for _, key := range []string{wire.MetaTraceParent, wire.MetaTraceState} {
		if value := trace[key]; value != "" {
			meta = meta.With(key, wire.Quote(value))
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
