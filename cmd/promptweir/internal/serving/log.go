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
	// maxWaitingLog bounds the queue of records, in bytes.
	maxWaitingLog = 1 << 20
	// logFlushTimeout bounds the wait for the last records when the process ends.
	logFlushTimeout = time.Second
)

// NewLogger returns a logger that never blocks, a writer for text between its records, and a function that
// writes the last records within logFlushTimeout. After it has dropped records, the logger logs their number
// before the next record.
func NewLogger(
	out io.Writer, handler func(io.Writer) slog.Handler,
) (logger *slog.Logger, between io.Writer, flush func()) {
	// This logger bypasses the queue, so that its warning precedes the next records.
	direct := slog.New(handler(out))
	w := newLogWriter(out, func(dropped int) {
		direct.Warn("log records dropped: standard error is not read fast enough",
			slog.Int("count", dropped))
	})
	return slog.New(handler(w)), w, w.flush
}

// tracedHandler adds trace_id and span_id of the current span to local records, as OpenTelemetry names them.
// It exports the records without these attributes, because the exporter adds the ids.
type tracedHandler struct{ local, exported slog.Handler }

// Enabled implements slog.Handler. The local handler also decides for exported records.
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

// logWriter writes in its own goroutine, so that callers never wait. It drops and counts records that its
// queue has no room for: a pipe without a reader must not stop the gateway.
type logWriter struct {
	out     io.Writer
	dropped func(records int)
	wake    chan struct{} // capacity 1
	ended   chan struct{} // closed after flush, once everything is written

	mu      sync.Mutex // guards the fields below
	waiting []byte
	lost    int
	closed  bool
}

// newLogWriter returns a writer to out. It calls dropped with the number of dropped records before
// it writes the next records.
func newLogWriter(out io.Writer, dropped func(records int)) *logWriter {
	w := &logWriter{out: out, dropped: dropped, wake: make(chan struct{}, 1), ended: make(chan struct{})}
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
		_, _ = w.out.Write(records) // there is nowhere to report a failure of the log
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

// flush waits until the queue is written, up to logFlushTimeout. Later records are dropped.
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
