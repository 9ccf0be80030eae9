package requests

import (
	"context"
	"log/slog"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/screen"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// screenResult checks the result of a get or a completion against the screen blocks of the entry's team. The error names
// the check and the place, and quotes nothing of the result.
func (h *Handler) screenResult(ctx context.Context, s *snapshot.Snapshot, entry *catalog.Entry, result upstream.Result) (upstream.Result, error) {
	outcome := s.Screen(entry.Team).Result(result.JSON)
	for _, f := range outcome.Noted {
		f.Throttle(func() { h.logFinding(ctx, entry, f, "found in a result") })
	}
	if f := outcome.Rejected; f != nil {
		h.logFinding(ctx, entry, *f, "result rejected")
		data := wire.Object{}.With("reason", wire.Quote("screened")).With("screen", wire.Quote(f.Block.Label)).
			With("check", wire.Quote(f.Check)).With("at", wire.Quote(f.At))
		return upstream.Result{}, wire.NewError(wire.InternalError, "The result was rejected: "+f.String()).WithData(data.JSON())
	}
	result.JSON = outcome.JSON
	return result, nil
}

// screenRelayed returns the check of whatever the upstream sends to the client during a request against the same blocks;
// nil where there are none. What it does not pass must not be relayed.
func (h *Handler) screenRelayed(ctx context.Context, s *snapshot.Snapshot, entry *catalog.Entry) func(jsontext.Value) (jsontext.Value, bool) {
	blocks := s.Screen(entry.Team)
	if blocks == nil {
		return nil
	}
	return func(raw jsontext.Value) (jsontext.Value, bool) {
		outcome := blocks.Result(raw)
		for _, f := range outcome.Noted {
			f.Throttle(func() { h.logFinding(ctx, entry, f, "found in a server request or notification") })
		}
		if f := outcome.Rejected; f != nil {
			h.logFinding(ctx, entry, *f, "server request or notification rejected")
		}
		return outcome.JSON, outcome.Rejected == nil
	}
}

func (h *Handler) logFinding(ctx context.Context, entry *catalog.Entry, f screen.Finding, outcome string) {
	h.logger.WarnContext(ctx, "screen", slog.String("outcome", outcome), slog.String("prompt", entry.Name),
		slog.String("finding", f.String()), slog.String("rule", f.Block.Place.String()), slog.String("action", string(f.Block.Action)))
}
