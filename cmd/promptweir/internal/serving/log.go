package serving

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
)

const (
	// maxWaitingLog bounds the records that wait to be written, in bytes.
	maxWaitingLog = 1 << 20
	// logFlushTimeout is how long the end of the process waits for records to be written.
	logFlushTimeout = time.Second
)

// NewLogger returns a logger of a handler to out, for which nothing waits, a writer of text between
// its records, and a function that writes what is still to be written. What is dropped is said with
// the next record that is not.
func NewLogger(
	out io.Writer, handler func(io.Writer) slog.Handler,
) (logger *slog.Logger, between io.Writer, flush func()) {
	// Past the queue, so that it stands before the records that follow those that were dropped.
	direct := slog.New(handler(out))
	w := newLogWriter(out, func(dropped int) {
		direct.Warn("log records dropped: standard error is not read fast enough",
			slog.Int("count", dropped))
	})
	return slog.New(handler(w)), w, w.flush
}

// tracedHandler adds to local records the ids of the span in which they were made, named as
// OpenTelemetry names them in logs. It exports the same records, to which the exporter adds the
// ids.
type tracedHandler struct{ local, exported slog.Handler }

// Enabled implements slog.Handler. The local handler decides which records are exported.
func (h *tracedHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.local.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *tracedHandler) Handle(ctx context.Context, r slog.Record) error {
	err := h.exported.Handle(ctx, r)
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()),
			slog.String("span_id", span.SpanID().String()))
	}
	return errors.Join(h.local.Handle(ctx, r), err)
}

// WithAttrs implements slog.Handler.
func (h *tracedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &tracedHandler{h.local.WithAttrs(attrs), h.exported.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h *tracedHandler) WithGroup(name string) slog.Handler {
	return &tracedHandler{h.local.WithGroup(name), h.exported.WithGroup(name)}
}

// logWriter passes on what is written to it on a goroutine of its own, so that no writer waits.
// What does not fit is dropped and counted: a pipe that no one reads must not stop the gateway.
type logWriter struct {
	out     io.Writer
	dropped func(records int)
	wake    chan struct{} // has room for one
	ended   chan struct{} // closed once all is written after flush

	mu      sync.Mutex // guards what follows
	waiting []byte
	lost    int
	closed  bool
}

// newLogWriter returns a writer to out. Dropped is told, before records that follow them, how many
// were.
func newLogWriter(out io.Writer, dropped func(records int)) *logWriter {
	w := &logWriter{
		out: out, dropped: dropped, wake: make(chan struct{}, 1),
		ended: make(chan struct{}),
	}
	go w.run()
	return w
}

// Write implements io.Writer for whole records. It never fails.
func (w *logWriter) Write(record []byte) (int, error) {
	w.mu.Lock()
	if len(w.waiting)+len(record) > maxWaitingLog || w.closed {
		w.lost++
	} else {
		w.waiting = append(w.waiting, record...)
	}
	w.mu.Unlock()
	w.wakeUp()
	return len(record), nil
}

func (w *logWriter) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *logWriter) run() {
	var spare []byte
	for range w.wake {
		w.mu.Lock()
		records, lost, closed := w.waiting, w.lost, w.closed
		w.waiting, w.lost = spare[:0], 0
		w.mu.Unlock()
		_, _ = w.out.Write(records) // there is no other place to which a failure could be reported
		spare = records
		if lost > 0 {
			w.dropped(lost)
		}
		if closed {
			close(w.ended)
			return
		}
	}
}

// flush waits until all records are written, but not for ever. Later ones are dropped.
func (w *logWriter) flush() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.wakeUp()
	select {
	case <-w.ended:
	case <-time.After(logFlushTimeout):
	}
}
