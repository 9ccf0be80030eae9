package client

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/upstream/system"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

func TestRetryAfter_ReadsSecondsAndDates(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	date := func(after time.Duration) string { return now.Add(after).UTC().Format(http.TimeFormat) }
	for name, test := range map[string]struct {
		value, date string
		want        time.Duration
	}{
		"absent":                       {"", "", 0},
		"seconds":                      {"7", "", 7 * time.Second},
		"zero":                         {"0", "", 0},
		"a fraction":                   {"1.5", "", 0},
		"too long":                     {"86400", "", MaxRetryAfter},
		"more than any number holds":   {"99999999999999999999", "", MaxRetryAfter},
		"a date":                       {date(time.Minute), date(0), time.Minute},
		"of another clock":             {date(time.Hour + time.Minute), date(time.Hour), time.Minute},
		"in the past":                  {date(-time.Minute), date(0), 0},
		"far ahead":                    {date(9000 * time.Hour), date(0), MaxRetryAfter},
		"beside a Date that is broken": {date(time.Hour), "yesterday", MaxRetryAfter},
	} {
		header := http.Header{}
		header.Set("Retry-After", test.value)
		header.Set("Date", test.date)
		upstreamtest.Equal(t, test.want, retryAfter(header), "%s: Retry-After: %s", name, test.value)
	}
}

// A panic over a line of a child, or an event of HTTP+SSE, ends the call that it is about, at once, and no other.
func TestMux_PanicEndsTheCallThatItIsAbout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		x := newMux(slog.New(slog.DiscardHandler))
		x.setRevision(wire.Rev20250326)
		x.receive = func(*wire.Message) { panic("out of range") }
		failures := [...]error{1: errStreamEnded, 2: errStreamEnded}
		for id := 1; id < len(failures); id++ {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(id)*time.Minute)
				defer cancel()
				r := &request{id: int64(id), method: wire.PromptsGet}
				failures[id] = x.await(ctx, r, func(context.Context, []byte) error { return nil })
			}()
		}
		synctest.Wait()
		if err := x.dispatch([]byte(`[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":1,"result":{}}]`)); err == nil {
			t.Error("nobody hears of a panic")
		}
		synctest.Wait()
		if err := failures[1]; !OutcomeOf(err).Answered || err == nil || err.Error() != errPanic.Error() {
			t.Errorf("the call that it is about fails with %v, want %v", err, errPanic)
		}
		if err := x.dispatch([]byte(`{"jsonrpc":"2.0","id":2,"result":{}}`)); err != nil {
			t.Errorf("the next response: %v", err)
		}
		synctest.Wait()
		if failures[2] != nil {
			t.Errorf("another call fails with %v", failures[2])
		}
	})
}

// A child decides how much it prints, and must not keep a processor busy with it.
func TestChild_ThatPrintsOnlyGarbageIsStopped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stdout")
	if err := os.WriteFile(path, []byte(strings.Repeat("this is garbage\n", 20_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	bubble.Test(t, func(t *testing.T) {
		stdout, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer stdout.Close()
		var log strings.Builder
		logger := slog.New(slog.NewTextHandler(&log, nil))
		c := &child{mux: newMux(logger), command: exec.Command("sleep", "3600"), stdout: stdout, strayLog: slog.New(slog.DiscardHandler), maxMessage: 1 << 10} //nolint:noctx // it is to be killed
		if err := errors.Join(system.OwnGroup(c.command), c.command.Start()); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		c.readMessages()
		ended := c.command.Wait()
		const least = (mostGarbage - maxGarbage) * garbagePause
		if took := time.Since(begun); took < least || took > 2*least || !strings.Contains(log.String(), "child process stopped") {
			t.Errorf("after %s the child ended with %v: %s", took, ended, &log)
		}
	})
}
