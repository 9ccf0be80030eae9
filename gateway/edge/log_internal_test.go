package edge

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

func TestOccasional_LogsOnceAnIntervalHowManyThereWere(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		c := occasional{log: func(count, last slog.Attr) { logger.Warn("full", count, last) }}
		for range 1000 {
			c.add(slog.String("client", "ann"))
		}
		time.Sleep(10 * logInterval)
		c.add(slog.String("client", "bob"))
		time.Sleep(10 * logInterval)
		synctest.Wait()
		var got []string
		for line := range strings.Lines(log.String()) {
			_, text, _ := strings.Cut(strings.TrimSpace(line), "level=")
			got = append(got, text)
		}
		want := []string{
			"WARN msg=full count=1 client=ann", "WARN msg=full count=999 client=ann", "WARN msg=full count=1 client=bob",
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("logged %q, want %q", got, want)
		}
	})
}
