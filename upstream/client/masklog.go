package client

import (
	"context"
	"log/slog"

	"github.com/promptweir/promptweir/config"
)

// maskLog is a slog.Handler that hides the server's secrets in what it has printed, or what an error quotes.
type maskLog struct {
	slog.Handler

	mask config.Mask
}

// Handle implements slog.Handler.
func (l *maskLog) Handle(ctx context.Context, r slog.Record) error {
	masked := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.AnyValue(l.mask.Error(err))
		} else if a.Value.Kind() == slog.KindString {
			a.Value = slog.StringValue(l.mask.Text(a.Value.String()))
		}
		masked.AddAttrs(a)
		return true
	})
	return l.Handler.Handle(ctx, masked)
}

// WithAttrs implements slog.Handler. The attributes are the gateway's own.
func (l *maskLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &maskLog{l.Handler.WithAttrs(attrs), l.mask}
}

// WithGroup implements slog.Handler.
func (l *maskLog) WithGroup(name string) slog.Handler {
	return &maskLog{l.Handler.WithGroup(name), l.mask}
}
