package audit

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func today() time.Time { return time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC) }

// logLine is a line of a log, so many days before today().
func logLine(days int, l Line) string {
	l.Time = today().AddDate(0, 0, -days)
	return string(l.encode())
}

func got(days int, subject, prompt string, outcome Outcome) string {
	team := "a"
	if outcome == Unknown {
		team = ""
	}
	return logLine(days, Line{Event: Get, Subject: subject, Prompt: prompt, Team: team, Outcome: outcome})
}

// summary is the text that tests compare: NAME LAST-DAY [unused] USER… [OUTCOME:N…].
func summary(u *Usage, known ...string) (rows []string) {
	for _, p := range u.Report(known, today()).Prompts {
		row := p.Name + " never"
		if !p.Last.IsZero() {
			row = p.Name + " " + p.Last.Format("01-02")
		}
		if p.Unused {
			row += " unused"
		}
		rows = append(rows, strings.TrimSpace(row+" "+Names(p.Users))+" "+strings.TrimPrefix(fmt.Sprint(p.Outcomes), "map"))
	}
	return rows
}

func TestUsage_CountsGetsByUsers(t *testing.T) {
	log := got(100, "user:ann", "a.old", OK) +
		got(3, "user:ann", "a.review", OK) + got(2, "user:bob", "a.review", UpstreamError) + got(1, "user:ann", "a.review", OK) +
		got(1, "user:eve", "a.review", Hidden) + got(1, "user:eve", "a.secret", Hidden) +
		got(1, "user:eve", "a.nonsense", Unknown) +
		logLine(1, Line{Event: Completion, Subject: "user:eve", Team: "a", Prompt: "a.typed"}) +
		logLine(1, Line{Event: Get, Method: "resources/read", Subject: "user:eve", Team: "a", Prompt: "a.link", Outcome: OK}) +
		logLine(0, Line{Event: Get, Subject: "operator", Via: "console", Team: "a", Prompt: "a.tried", Outcome: OK}) +
		logLine(1, Line{Event: Get, Subject: "user:ann", Via: "flat", Team: "a", Prompt: "skill:a/b", Outcome: OK}) +
		"another program's line\n{\"level\":\"info\"}\n" + `{"time":"2026-11-28T`
	var u Usage
	if err := u.Read(strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"a.new never unused []",
		"a.secret never unused [denied:1]",
		"a.old 08-20 unused user:ann [ok:1]",
		"a.review 11-27 user:ann, user:bob [denied:1 ok:2 upstream_error:1]",
		"skill:a/b 11-27 user:ann [ok:1]",
	}
	upstreamtest.Equal(t, want, summary(&u, "a.new", "a.review"), "usage")
	upstreamtest.Equal(t, "Unused for 90 days: 3 of 5 prompts", u.Report([]string{"a.new"}, today()).Summary, "summary")
	if !u.From.Equal(today().AddDate(0, 0, -100)) {
		t.Errorf("the log begins at %s", u.From)
	}
}

func TestReadUsage_ReadsRotationsNewestFirstWithinABound(t *testing.T) {
	folder := t.TempDir()
	write := func(days int, name, text string) {
		path := filepath.Join(folder, name)
		if strings.HasSuffix(name, ".gz") {
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			_, _ = w.Write([]byte(text))
			_ = w.Close()
			text = packed.String()
		}
		when := today().AddDate(0, 0, -days)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	write(0, "audit.jsonl", got(0, "user:ann", "a", OK))
	write(1, "audit.jsonl-20261127", got(1, "user:ann", "b", OK)+got(1, "user:ann", "a", OK))
	write(2, "audit.jsonl.2.gz", got(2, "user:bob", "a", OK))
	write(0, "audit.jsonlines", got(0, "user:eve", "a", OK))
	write(0, "other", got(0, "user:eve", "a", OK))
	if err := os.Mkdir(filepath.Join(folder, "audit.jsonl.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	path, length := filepath.Join(folder, "audit.jsonl"), int64(len(got(0, "user:ann", "a", OK)))
	for _, row := range []struct {
		limit      int64
		incomplete bool
		want       []string
	}{
		{maxUsageBytes, false, []string{"b 11-27 user:ann [ok:1]", "a 11-28 user:ann, user:bob [ok:3]"}},
		{3 * length, true, []string{"b 11-27 user:ann [ok:1]", "a 11-28 user:ann [ok:2]"}},
		{2 * length, true, []string{"a 11-28 user:ann [ok:2]"}}, // the end of a file
		{1, true, nil},
	} {
		u, err := readUsage(path, row.limit)
		if diff := cmp.Diff(row.want, summary(u)); err != nil || u.incomplete != row.incomplete || diff != "" {
			t.Errorf("%d bytes: %v, incomplete: %t, (-want +got):\n%s", row.limit, err, u.incomplete, diff)
		}
	}
	write(3, "audit.jsonl.3.gz", strings.Repeat(got(3, "user:bob", "a", OK), 100)) // short, but it has many lines
	if u, err := readUsage(path, 10*length); err != nil || !u.incomplete {
		t.Errorf("the beginning of a compressed log: %v, incomplete: %t", err, u.incomplete)
	}
	if err := os.Remove(filepath.Join(folder, "audit.jsonl.3.gz")); err != nil {
		t.Fatal(err)
	}
	write(3, "audit.jsonl.3.gz.broken", "\x1f\x8bbroken")
	u, err := ReadUsage(path)
	if err == nil || !strings.Contains(err.Error(), "audit.jsonl.3.gz.broken: ") || len(summary(u)) != 2 {
		t.Errorf("a broken rotation costs the others: %v, %q", err, summary(u))
	}
	if _, err := ReadUsage(filepath.Join(folder, "none", "audit.jsonl")); err == nil {
		t.Error("a folder that does not exist has a log")
	}
}
