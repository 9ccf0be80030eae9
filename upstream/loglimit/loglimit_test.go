package loglimit_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/upstream/loglimit"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// recorder records a logger's output. Timers write, too.
type recorder struct{ upstreamtest.Log }

// lines returns what was written so far, within synctest.Test.
func (r *recorder) lines() []string {
	synctest.Wait()
	return strings.Split(strings.TrimSpace(r.String()), "\n")
}

// logger returns a logger that writes no times.
func (r *recorder) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func TestNew_CountsWhatItWithholds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log recorder
		limited := loglimit.New(log.logger(), 2)
		derived := limited.With("upstream", "git")
		for i := range 1000 {
			derived.Warn("line ignored", "line", i)
		}
		limited.Warn("another message")
		time.Sleep(11 * time.Second)
		derived.Warn("line ignored", "line", 1000)
		want := []string{
			`msg="line ignored" upstream=git line=0`,
			`msg="line ignored" upstream=git line=1`,
			`msg="another message"`,
			`msg="line ignored" upstream=git line=999 more=997`,
			`msg="line ignored" upstream=git line=1000`,
		}
		upstreamtest.Equal(t, want, log.lines(), "log")
	})
}

// A program that says the same again and again is a line in ten seconds.
func TestNew_RepeatedRecordIsALineInTenSeconds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log recorder
		limited := loglimit.New(log.logger(), 1, "line")
		for range 84 { // 25 seconds
			limited.Info("stderr", "line", "no database")
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		limited.Info("stderr", "line", "no database")
		want := []string{
			`msg=stderr line="no database"`, `msg=stderr line="no database" more=32`, `msg=stderr line="no database" more=32`,
			`msg=stderr line="no database" more=16`, `msg=stderr line="no database"`,
		}
		upstreamtest.Equal(t, want, log.lines(), "log")
	})
}

func TestNew_CountsKindsByTheirKeys(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log recorder
		limited := loglimit.New(log.logger(), 1, "upstream", "reason")
		for i := range 3 {
			limited.Warn("no answer", "upstream", "a", "reason", "timeout", "took", i)
			limited.Warn("no answer", "upstream", "b", "reason", "timeout", "took", i)
		}
		limited.Warn("no answer", "upstream", "a", "reason", "overloaded")
		limited.Warn("no answer", "upstream", "a", "reason", "overloaded")
		limited.Warn("no answer")
		first := len(log.lines())
		time.Sleep(11 * time.Second)
		want := map[string]bool{
			`msg="no answer" upstream=a reason=timeout took=0`: true, `msg="no answer" upstream=b reason=timeout took=0`: true,
			`msg="no answer" upstream=a reason=overloaded`: true, `msg="no answer"`: true,
			`msg="no answer" upstream=a reason=timeout took=2 more=1`: true, `msg="no answer" upstream=b reason=timeout took=2 more=1`: true,
		}
		got := map[string]bool{}
		for _, line := range log.lines() {
			got[line] = true
		}
		if diff := cmp.Diff(want, got); diff != "" || first != 4 || len(log.lines()) != 7 { // the second "overloaded" is the same line
			t.Errorf("log, %d lines at once, %d in all (-want +got):\n%s", first, len(log.lines()), diff)
		}
	})
}

func TestNew_ForgetsOldKinds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log recorder
		limited := loglimit.New(log.logger(), 1, "prompt")
		for range 3 {
			for i := range 2000 {
				limited.Warn("screen", "prompt", i)
			}
			time.Sleep(11 * time.Second)
		}
		upstreamtest.Equal(t, 6000, len(log.lines()), "lines, each once in each window")
	})
}
