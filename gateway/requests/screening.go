package requests

import (
	"context"
	"errors"
	"log/slog"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/screen"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// screening checks what an upstream sends for an entry against the screen blocks of the entry's
// team.
type screening struct {
	logger *slog.Logger
	prompt string
	blocks *screen.Screen // nil where there are none
}

func newScreening(logger *slog.Logger, entry *catalog.Entry, blocks *screen.Screen) screening {
	return screening{logger, entry.Name, blocks}
}

// result checks the result of a get or a completion. The error names the check and the path, and
// quotes nothing of the result.
func (s *screening) result(ctx context.Context, result upstream.Result) (upstream.Result, error) {
	outcome, err := s.blocks.Result(ctx, result.JSON)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		s.logger.WarnContext(ctx, "screens take too long: requests fail", slog.String("prompt", s.prompt))
		return upstream.Result{}, rulesTakeTooLong()
	}
	if err != nil {
		return upstream.Result{}, err
	}
	for _, f := range outcome.Noted {
		f.Throttle(func() { s.log(ctx, f, "found in a result") })
	}
	if f := outcome.Rejected; f != nil {
		s.log(ctx, *f, "result rejected")
		data := wire.Object{}.With("reason", wire.Quote("screened")).With("screen", wire.Quote(f.Block.Label)).
			With("check", wire.Quote(f.Check)).With("at", wire.Quote(f.At))
		problem := "The result was rejected: " + f.String()
		return upstream.Result{}, wire.NewError(wire.InternalError, problem).WithData(data.JSON())
	}
	result.JSON = outcome.JSON
	return result, nil
}

// relayed checks the params of a notification or server request. What does not pass must not be
// relayed.
func (s *screening) relayed(ctx context.Context, params jsontext.Value) (passed jsontext.Value, ok bool) {
	if s.blocks == nil {
		return params, true
	}
	outcome, err := s.blocks.Result(ctx, params)
	if err != nil {
		s.logger.WarnContext(ctx, "screens take too long: a server request or notification is not passed on",
			slog.String("prompt", s.prompt))
		return nil, false
	}
	for _, f := range outcome.Noted {
		f.Throttle(func() { s.log(ctx, f, "found in a server request or notification") })
	}
	if f := outcome.Rejected; f != nil {
		s.log(ctx, *f, "server request or notification rejected")
	}
	return outcome.JSON, outcome.Rejected == nil
}

func (s *screening) log(ctx context.Context, f screen.Finding, outcome string) {
	s.logger.WarnContext(ctx, "screen", slog.String("outcome", outcome), slog.String("prompt", s.prompt),
		slog.String("finding", f.String()), slog.String("rule", f.Block.Place.String()),
		slog.String("action", string(f.Block.Action)))
}
