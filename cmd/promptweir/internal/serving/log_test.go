package serving

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/otel/sdk/log"

	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

func TestLogWriter_CountsWhatDoesNotFit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		out := &slowWriter{proceed: make(chan struct{})}
		w := newLogWriter(out, func(records int) { fmt.Fprintf(&out.written, "%d dropped\n", records) })
		record := bytes.Repeat([]byte("x"), maxWaitingLog/4)
		for range 10 {
			if n, err := w.Write(record); n != len(record) || err != nil {
				t.Fatalf("Write = %d, %v, want no sign that a record is dropped", n, err)
			}
			synctest.Wait() // so that the first record is being written while the others wait
		}
		close(out.proceed)
		w.flush()
		got := strings.ReplaceAll(out.written.String(), string(record), "record ")
		if want := "record record record record record 5 dropped\n"; got != want {
			t.Errorf("written: %.200s, want %s", got, want)
		}
		if n, err := w.Write(record); n != len(record) || err != nil {
			t.Errorf("Write after flush = %d, %v", n, err)
		}
	})
}

// slowWriter writes when it may proceed.
type slowWriter struct {
	proceed chan struct{}
	written strings.Builder
}

func (w *slowWriter) Write(p []byte) (int, error) {
	<-w.proceed
	return w.written.Write(p)
}

// hangingExporter exports nothing until it is released, and then counts.
type hangingExporter struct {
	released chan struct{}
	exported atomic.Int64
}

func (e *hangingExporter) Export(_ context.Context, records []log.Record) error {
	<-e.released
	e.exported.Add(int64(len(records)))
	return nil
}

func (e *hangingExporter) Shutdown(context.Context) error { return nil }

func (e *hangingExporter) ForceFlush(context.Context) error { return nil }

// As many records wait as are promised, or as the standard variable asks for.
func TestLogQueue_KeepsABurstForACollectorThatHangs(t *testing.T) {
	for size, want := range map[string]int64{"": maxQueuedLogs, "2000": 2000} {
		t.Setenv("OTEL_BLRP_MAX_QUEUE_SIZE", size)
		exporter := &hangingExporter{released: make(chan struct{})}
		provider := log.NewLoggerProvider(log.WithProcessor(log.NewBatchProcessor(exporter, logQueue()...)))
		logger := slog.New(otelslog.NewHandler("test", otelslog.WithLoggerProvider(provider)))
		for range want {
			logger.Info("again")
		}
		close(exporter.released)
		if err := provider.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if got := exporter.exported.Load(); got != want {
			t.Errorf("OTEL_BLRP_MAX_QUEUE_SIZE=%q: %d of %d records are exported", size, got, want)
		}
	}
}
