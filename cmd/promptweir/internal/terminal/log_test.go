package terminal

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// recorded returns what a terminal shows of records.
func recorded(t *testing.T, color bool, log func(*slog.Logger)) string {
	t.Helper()
	var out strings.Builder
	log(slog.New(NewLogHandler(&out, slog.LevelInfo, color)))
	now := time.Now().Format(time.TimeOnly)[:5] // the seconds may have changed
	lines := strings.SplitAfter(out.String(), "\n")
	for i, line := range lines {
		if at := strings.Index(line, now); at >= 0 && at < 8 {
			lines[i] = line[:at] + "HH:MM:SS" + line[at+8:]
		}
	}
	return strings.Join(lines, "")
}

func TestLogHandler_WritesForAPerson(t *testing.T) {
	got := recorded(t, false, func(l *slog.Logger) {
		l.Debug("not shown")
		l.Info("upstream connected", slog.Int("prompts", 12), slog.String("revision", "2026-07-28"))
		l.With(slog.String("upstream", "wiki"), slog.String("team", "docs")).Warn("upstream down",
			slog.String("place", "teams/docs.hcl:3"), slog.String("reason", "unreachable"), slog.String("cause", "connection refused at 127.0.0.1:9090"),
			slog.String("remedy", "start the server"), slog.Any("error", errors.New("dial tcp 127.0.0.1:9090: connect: connection refused")))
		l.Error("configuration refused", slog.Any("error", errors.New("Error: one\n  on a.hcl line 1\nError: two")))
		l.Error("configuration refused", slog.String("config", "a.hcl"), slog.Any("error", errors.New(`a.hcl:1: Unknown attribute: Did you mean "url"?`)))
		l.Warn("catalog", slog.String("kind", "misfit"), slog.String("upstream", "wiki"), slog.String("report", `prompt "x" is left out`))
		l.WithGroup("a").With(slog.Int("b", 1)).Info("grouped", slog.String("c", "x y"), slog.Duration("d", time.Second))
		l.Info("stderr", slog.String("line", "\x1b[2J\u202egone"))
	})
	want := `HH:MM:SS INFO  upstream connected prompts=12 revision=2026-07-28
HH:MM:SS WARN  upstream down: wiki (teams/docs.hcl:3): connection refused at 127.0.0.1:9090; start the server
HH:MM:SS ERROR configuration refused
    Error: one
      on a.hcl line 1
    Error: two
HH:MM:SS ERROR configuration refused: a.hcl:1: Unknown attribute: Did you mean "url"? config=a.hcl
HH:MM:SS WARN  catalog: prompt "x" is left out kind=misfit
HH:MM:SS INFO  grouped a.b=1 a.c="x y" a.d=1s
HH:MM:SS INFO  stderr line="\x1b[2J\u202egone"
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestLogHandler_ColoursTimeLevelAndKeys(t *testing.T) {
	got := recorded(t, true, func(l *slog.Logger) { l.Warn("breaker", slog.String("to", "open")) })
	if want := "\x1b[2mHH:MM:SS\x1b[0m \x1b[33mWARN \x1b[0m breaker \x1b[2mto=\x1b[0mopen\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
