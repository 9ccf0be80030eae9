package gateway

import (
	"context"
	"log/slog"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/screen"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// screened holds the result of a get or a completion against the screen blocks of the entry's team. The error says which
// rule it breaks and where, and nothing of what it says.
func (g *Gateway) screened(ctx context.Context, e *edition, entry *catalog.Entry, result upstream.Result) (upstream.Result, error) {
	outcome := e.intake.screens[entry.Team].Result(result.JSON)
	for _, f := range outcome.Noted {
		f.Throttle(func() { g.logScreened(ctx, entry, f, "found in a result") })
	}
	if f := outcome.Rejected; f != nil {
		g.logScreened(ctx, entry, *f, "result rejected")
		data := wire.Object{}.With("reason", wire.Quote("screened")).With("screen", wire.Quote(f.Block.Label)).
			With("check", wire.Quote(f.Check)).With("at", wire.Quote(f.At))
		return upstream.Result{}, wire.NewError(wire.InternalError, "The result was rejected: "+f.String()).WithData(data.JSON())
	}
	result.JSON = outcome.JSON
	return result, nil
}

// screening returns what holds a question or a notification on the way to the client against the same blocks; nil where
// there are none. What is rejected must not go on.
func (g *Gateway) screening(ctx context.Context, e *edition, entry *catalog.Entry) func(jsontext.Value) (jsontext.Value, bool) {
	blocks := e.intake.screens[entry.Team]
	if blocks == nil {
		return nil
	}
	return func(raw jsontext.Value) (jsontext.Value, bool) {
		outcome := blocks.Result(raw)
		for _, f := range outcome.Noted {
			f.Throttle(func() { g.logScreened(ctx, entry, f, "found in a question or notification") })
		}
		if f := outcome.Rejected; f != nil {
			g.logScreened(ctx, entry, *f, "question or notification rejected")
		}
		return outcome.JSON, outcome.Rejected == nil
	}
}

func (g *Gateway) logScreened(ctx context.Context, entry *catalog.Entry, f screen.Finding, what string) {
	g.logger.WarnContext(ctx, "screen", slog.String("outcome", what), slog.String("prompt", entry.Name),
		slog.String("finding", f.String()), slog.String("rule", f.Block.Place.String()), slog.String("action", string(f.Block.Action)))
}
