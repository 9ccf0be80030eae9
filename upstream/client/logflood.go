package client

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// maxLogged bounds how often the same message is logged for one address within logWindow. A server decides how often it
	// causes one, and could fill the disk.
	maxLogged = 50
	logWindow = 10 * time.Second
)

// logLimiter is a slog.Handler that passes on a few records of each message, and then only how many more there were.
type logLimiter struct {
	slog.Handler

	windows *logWindows
}

// logWindows is what the loggers derived from one another have in common.
type logWindows struct {
	mu sync.Mutex // guards open
	// open has the windows that have begun, by message. Messages are constants of this package, so that they are few.
	open map[string]*openWindow
}

// openWindow counts the records with one message.
type openWindow struct {
	began time.Time
	count int
}

// limitLog returns a logger that cannot be flooded with one message.
func limitLog(logger *slog.Logger) *slog.Logger {
	return slog.New(&logLimiter{logger.Handler(), &logWindows{open: map[string]*openWindow{}}})
}

// Handle implements slog.Handler.
func (l *logLimiter) Handle(ctx context.Context, r slog.Record) error {
	pass, withheld := l.windows.count(r.Message)
	switch {
	case !pass:
		return nil
	case withheld > 0: // in the window before
		r = r.Clone()
		r.AddAttrs(slog.Int("more", withheld))
	}
	return l.Handler.Handle(ctx, r)
}

// count counts a record, and reports whether to pass it on. If it begins a window, withheld is how many of the last one were
// not passed on.
func (w *logWindows) count(message string) (pass bool, withheld int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	window := w.open[message]
	if window == nil || time.Since(window.began) > logWindow {
		if window != nil {
			withheld = max(window.count-maxLogged, 0)
		}
		window = &openWindow{began: time.Now()}
		w.open[message] = window
	}
	window.count++
	return window.count <= maxLogged, withheld
}

// WithAttrs implements slog.Handler.
func (l *logLimiter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logLimiter{l.Handler.WithAttrs(attrs), l.windows}
}

// WithGroup implements slog.Handler.
func (l *logLimiter) WithGroup(name string) slog.Handler {
	return &logLimiter{l.Handler.WithGroup(name), l.windows}
}
