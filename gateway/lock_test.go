package gateway_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
)

// serveLocked runs a gateway with a lock file.
func serveLocked(t *testing.T, text string, lock config.Lock) *server {
	t.Helper()
	s := beginLoaded(t, loadLocked(t, text, lock), gateway.Options{})
	s.settle()
	return s
}

func reports(s *server) string {
	var all []string
	for _, r := range s.Reports() {
		all = append(all, fmt.Sprintf("%s %s", r.Kind, r.Name))
	}
	return strings.Join(all, ", ")
}

func TestWhatTheLockDoesNotApproveIsLeftOut(t *testing.T) {
	p := newPeer(t, "p", `{"name":"a","title":"A"}`, "b")
	free := newPeer(t, "free", "x")
	text := func(mode string) string {
		return team("eng", "", mode, p) + team("other", "", "", free)
	}
	lock := serve(t, text("")).Lock()
	if len(lock) != 3 {
		t.Fatalf("the lock has %d prompts, want 3", len(lock))
	}

	s := serveLocked(t, text(`lock = "enforce"`), lock)
	c := s.legacy("2025-11-25", "")
	if diff := cmp.Diff([]string{"free.x", "p.a", "p.b"}, c.list()); diff != "" || reports(s) != "" {
		t.Errorf("nothing drifted, but (-want +got):\n%s%s", diff, reports(s))
	}
	p.watched().set(`{"title":"\u0041","name":"a"}`, `{"name":"b","description":"new"}`, "c")
	free.set("x", "y")
	p.announce()
	free.watched().announce()
	eventually(t, "the new lists are there", func() bool { return strings.Contains(strings.Join(c.list(), " "), "free.y") && reports(s) != "" })
	if diff := cmp.Diff([]string{"free.x", "free.y", "p.a"}, c.list()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, want := reports(s), "drift p.b, drift p.c"; got != want {
		t.Errorf("reports %q, want %q", got, want)
	}
	made, hidden := c.call("prompts/get", get("p.z")), c.call("prompts/get", get("p.b"))
	if diff := cmp.Diff(made.whole(), strings.ReplaceAll(hidden.whole(), "p.b", "p.z")); diff != "" {
		t.Errorf("a prompt that is left out does not look like none (-none +left out):\n%s", diff)
	}

	approved := s.Lock() // holds what was left out
	if changes := config.DiffLocks(lock, approved); len(changes) != 3 || changes[1].After.Definition != `{"description":"new"}` {
		t.Errorf("changes %v", changes)
	}
	again := serveLocked(t, text(`lock = "enforce"`), approved)
	if diff := cmp.Diff([]string{"free.x", "free.y", "p.a", "p.b", "p.c"}, again.modern("").list()); diff != "" || reports(again) != "" {
		t.Errorf("after approval (-want +got):\n%s%s", diff, reports(again))
	}
	warned := serveLocked(t, text(`lock = "warn"`), lock)
	if diff := cmp.Diff([]string{"free.x", "free.y", "p.a", "p.b", "p.c"}, warned.modern("").list()); diff != "" {
		t.Errorf("warn leaves out (-want +got):\n%s", diff)
	}
	if got, want := reports(warned), "drift p.b, drift p.c"; got != want {
		t.Errorf("reports %q, want %q", got, want)
	}
}

func TestEachDefinitionThatSomethingIsWrongWithIsLogged(t *testing.T) {
	p := newPeer(t, "p", "a", "b")
	lock := serve(t, team("eng", "", "", p)).Lock()
	var log lines
	s := beginLoaded(t, loadLocked(t, team("eng", "", `
  lock = "warn"
  screen "shout" { patterns = ["[A-Z]{3}"] }
`, p), lock), gateway.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.settle()
	p.watched()
	for i, a := range []string{"one", "two", "three"} {
		p.offer(fmt.Sprintf(`{"name":"a","title":%q}`, a), fmt.Sprintf(`{"name":"b","title":"DON'T %s"}`, a), a)
		// What is screened drifts too, although it is not listed.
		eventually(t, a+" is logged", func() bool { return log.count("kind=drift") == 3*(i+1) && log.count("kind=screened") == i+1 })
	}
}

func TestTheLockHoldsForListsThatWereKept(t *testing.T) {
	p := newPeer(t, "p", "a", "b")
	folder := t.TempDir()
	first, _ := keep(t, team("eng", "", "", p), folder)
	first.settle()
	lock := first.Lock()
	first.stop()
	p.stop()
	s := beginLoaded(t, loadLocked(t, team("eng", "", `lock = "enforce"`, p), lock[:1]),
		gateway.Options{StateDir: folder})
	if diff := cmp.Diff([]string{"p.a"}, names(s.Entries(nil))); diff != "" || reports(s) != "drift p.b" {
		t.Errorf("%s (-want +got):\n%s", reports(s), diff)
	}
	if got := s.Lock(); len(got) != 2 {
		t.Errorf("a new lock from kept lists has %d prompts, want 2", len(got))
	}
}
