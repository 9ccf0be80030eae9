package serving

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

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
