package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
)

const (
	// maxWaitingLog bounds the records that wait to be written, in bytes.
	maxWaitingLog = 1 << 20
	// logFlushBound is how long the end of the process waits for records to be written.
	logFlushBound = time.Second
)

// logger returns a logger that writes to standard error, because standard output belongs to results and to stdio clients.
func (a *app) logger() (*slog.Logger, error) {
	handler, err := a.logHandler(a.logOutput())
	if err != nil {
		return nil, err
	}
	return slog.New(handler), nil
}

// quietLogger is logger for commands that print a result and end: it logs errors only, unless --log-level is set.
func (a *app) quietLogger() (*slog.Logger, error) {
	if !a.flags.Changed("log-level") {
		a.logLevel = "error"
	}
	return a.logger()
}

// servingLogger is logger for commands that serve: nothing waits for its records to be written. Flush writes those that wait.
func (a *app) servingLogger() (logger *slog.Logger, flush func(), err error) {
	direct, err := a.logger()
	if err != nil {
		return nil, nil, err
	}
	w := newLogWriter(a.logOutput(), func(dropped int) {
		direct.Warn("log records dropped: standard error is not read fast enough", slog.Int("count", dropped))
	})
	handler, err := a.logHandler(w)
	if err != nil {
		return nil, nil, err
	}
	return slog.New(&traceHandler{handler}), w.flush, nil
}

// logsForPeople reports whether a person reads the log as it is written: at a terminal, unless --log-format says otherwise.
func (a *app) logsForPeople() bool {
	_, isTerminal := terminal.Width(a.raw.err)
	return isTerminal && !a.flags.Changed("log-format")
}

// logOutput returns where the log goes.
func (a *app) logOutput() io.Writer {
	if a.logsForPeople() {
		return a.raw.err // because of the colours: its handler lets nothing else act on the terminal
	}
	return a.err
}

// logStart logs what is being run: the first line of the log.
func logStart(ctx context.Context, logger *slog.Logger, path string, cfg *config.Config) {
	logger.InfoContext(ctx, "starting", slog.String("version", buildVersion()), slog.String("config", path),
		slog.Int("teams", len(cfg.Teams)), slog.Int("upstreams", len(cfg.Upstreams())))
}

func (a *app) logHandler(w io.Writer) (slog.Handler, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return nil, &usageError{fmt.Sprintf("--log-level %q: use debug, info, warn or error", a.logLevel)}
	}
	if a.logsForPeople() {
		_, color := terminal.Style(a.raw.err)
		return terminal.NewLogHandler(w, level, color), nil
	}
	options := &slog.HandlerOptions{Level: level}
	switch a.logFormat {
	case "text":
		return slog.NewTextHandler(w, options), nil
	case "json":
		return slog.NewJSONHandler(terminal.PrintableJSON(w), options), nil
	}
	return nil, &usageError{fmt.Sprintf("--log-format %q: use text or json", a.logFormat)}
}

// traceHandler adds the ids of the span in which a record was made, named as OpenTelemetry names them in logs.
type traceHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h *traceHandler) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &traceHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h *traceHandler) WithGroup(name string) slog.Handler {
	return &traceHandler{h.Handler.WithGroup(name)}
}

// logWriter passes on what is written to it on a goroutine of its own, so that no writer waits. What does not fit is dropped
// and counted: a pipe that no one reads must not stop the gateway.
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

// newLogWriter returns a writer to out. Dropped is told, before records that follow them, how many were.
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
	case <-time.After(logFlushBound):
	}
}
