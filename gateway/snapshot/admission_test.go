package snapshot_test

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestAdmission_LeavesOutWhatTheLockDoesNotApprove(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", `{"name":"a","title":"A"}`, "b")
	free := gatewaytest.NewPeer(t, "free", "x")
	text := func(mode string) string {
		return gatewaytest.Team("eng", "", mode, p) + gatewaytest.Team("other", "", "", free)
	}
	lock := gatewaytest.Serve(t, text("")).Lock()
	if len(lock) != 3 {
		t.Fatalf("the lock has %d prompts, want 3", len(lock))
	}

	s := gatewaytest.ServeLocked(t, text(`lock = "enforce"`), lock)
	c := s.Legacy("2025-11-25", "")
	if diff := cmp.Diff([]string{"free.x", "p.a", "p.b"}, c.List()); diff != "" || s.ReportNames() != "" {
		t.Errorf("nothing drifted, but (-want +got):\n%s%s", diff, s.ReportNames())
	}
	p.AwaitStream().SetPrompts(`{"title":"\u0041","name":"a"}`, `{"name":"b","description":"new"}`, "c")
	free.SetPrompts("x", "y")
	p.Announce()
	free.AwaitStream().Announce()
	upstreamtest.Eventually(t, "the new lists are published", func() bool {
		return strings.Contains(strings.Join(c.List(), " "), "free.y") && s.ReportNames() != ""
	})
	c.WantList("free.x", "free.y", "p.a")
	upstreamtest.Equal(t, "drift p.b, drift p.c", s.ReportNames(), "reports")
	made, hidden := c.Call("prompts/get", gatewaytest.GetParams("p.z")), c.Call("prompts/get", gatewaytest.GetParams("p.b"))
	upstreamtest.Equal(t, made.Dump(), strings.ReplaceAll(hidden.Dump(), "p.b", "p.z"),
		"a prompt that is left out does not look absent")

	approved := s.Lock() // includes the definitions that were left out
	if changes := config.DiffLocks(lock, approved); len(changes) != 3 || changes[1].After.Definition != `{"description":"new"}` {
		t.Errorf("the new lock has the changes %v, want three", changes)
	}
	again := gatewaytest.ServeLocked(t, text(`lock = "enforce"`), approved)
	if diff := cmp.Diff([]string{"free.x", "free.y", "p.a", "p.b", "p.c"}, again.Modern("").List()); diff != "" || again.ReportNames() != "" {
		t.Errorf("after approval (-want +got):\n%s%s", diff, again.ReportNames())
	}
	warned := gatewaytest.ServeLocked(t, text(`lock = "warn"`), lock)
	upstreamtest.Equal(t, []string{"free.x", "free.y", "p.a", "p.b", "p.c"}, warned.Modern("").List(),
		"lock = \"warn\" leaves prompts out")
	upstreamtest.Equal(t, "drift p.b, drift p.c", warned.ReportNames(), "reports")
}

func TestAdmission_LogsEachFinding(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a", "b")
	lock := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p)).Lock()
	var log gatewaytest.Log
	s := gatewaytest.StartConfig(t, gatewaytest.LoadLocked(t, gatewaytest.Team("eng", "", `
  lock = "warn"
  screen "shout" { patterns = ["[A-Z]{3}"] }
`, p), lock), gateway.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.AwaitUpstreams()
	p.AwaitStream()
	for i, a := range []string{"one", "two", "three"} {
		p.Offer(fmt.Sprintf(`{"name":"a","title":%q}`, a), fmt.Sprintf(`{"name":"b","title":"DON'T %s"}`, a), a)
		// A definition that a screen rejects drifts too.
		upstreamtest.Eventually(t, a+" is logged", func() bool {
			return log.Count("3 prompts of upstream") == i+1 && log.Count("kind=drift") == i+1 && log.Count("kind=screened") == i+1
		})
	}
}

func TestAdmission_AppliesTheLockToSavedLists(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a", "b")
	folder := t.TempDir()
	first, _ := serveWithStateDir(t, gatewaytest.Team("eng", "", "", p), folder)
	first.AwaitUpstreams()
	lock := first.Lock()
	first.Stop()
	p.Stop()
	s := gatewaytest.StartConfig(t, gatewaytest.LoadLocked(t, gatewaytest.Team("eng", "", `lock = "enforce"`, p), lock[:1]),
		gateway.Options{StateDir: folder})
	if diff := cmp.Diff([]string{"p.a"}, s.EntryNames(nil)); diff != "" || s.ReportNames() != "drift p.b" {
		t.Errorf("%s (-want +got):\n%s", s.ReportNames(), diff)
	}
	if got := s.Lock(); len(got) != 2 {
		t.Errorf("a new lock of saved lists has %d prompts, want 2", len(got))
	}
}

func TestAdmission_MasksSecretsThatAServerRepeats(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a", `{"name":"b","hunter2-secret":1,"hunter2-secret":2}`, `{"name":"c","icons":[{"src":1,"hunter2-secret":1}]}`)
	p.Settings = `headers = { X-Key = "hunter2-secret" }`
	s := gatewaytest.StartWith(t, gatewaytest.Team("eng", "", "", p), gateway.Options{})
	s.AwaitUpstreams()
	if got, want := s.ReportNames(), "unreadable p[1], unreadable p[2]"; got != want {
		t.Fatalf("reports %q, want %q", got, want)
	}
	reports := s.Snapshot().Reports()
	if got := reports[0].Text; strings.Contains(got, "hunter2") || !strings.Contains(got, `duplicate name "(sensitive)"`) {
		t.Errorf("a secret shows: %s", got)
	}
}

func TestAdmission_LeavesOutNamesThatPeopleCannotTell(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a", "a\u200b", "\u202ea", "b\u3164", "renamed\ue000", "tab\t", "zoë (1)",
		"love\u2764\ufe0f", "\u0646\u0627\u0645\u0647\u200c\u0647\u0627", "v1", "v1\ufe0f")
	s := gatewaytest.StartWith(t, gatewaytest.Team("eng", "", `prompt "p.renamed\ue000" { name = "p.renamed" }`, p), gateway.Options{})
	s.AwaitUpstreams()
	s.Legacy("2025-11-25", "").WantList("p.a", "p.love\u2764\ufe0f", "p.renamed", "p.v1", "p.v1\ufe0f", "p.zoë (1)", "p.\u0646\u0627\u0645\u0647\u200c\u0647\u0627")
	if got, want := s.ReportNames(), "folded_names p.v1, invisible_name p.a\u200b, invisible_name p.\u202ea, invisible_name p.b\u3164, invisible_name p.tab\t"; got != want {
		t.Errorf("reports %q, want %q", got, want)
	}
	for _, r := range s.Snapshot().Reports() {
		if r.Kind == catalog.InvisibleName && !strings.Contains(r.Text, strconv.QuoteToASCII(r.Name)) {
			t.Errorf("the report does not show the characters: %q", r.Text)
		}
	}
	explained := inspect.Explain(s.Snapshot(), policy.Principal{EveryTeam: true}, "p.a\u200b")
	if len(explained) != 1 || explained[0].Visible || !strings.Contains(explained[0].Reason, "invisible characters") {
		t.Errorf("Explain = %+v", explained)
	}
}

func TestAdmission_ScreensTheExposedName(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a", "b", "c")
	s := gatewaytest.StartWith(t, gatewaytest.Team("eng", "", `
  prompt "p.b" { name = "p.evil" }
  screen "names" { patterns = ["evil", "^p[.]c$"] }
`, p), gateway.Options{})
	s.AwaitUpstreams()
	s.Legacy("2025-11-25", "").WantList("p.a")
	upstreamtest.Equal(t, "screened p.b, screened p.c", s.ReportNames(), "reports")
}

// One definition that no strict reader accepts costs its upstream that definition, and not its list.
func TestAdmission_LeavesOutInvalidDefinitionOnly(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a", `{"name":"b","description":"\ud800"}`, `{"name":"c","name":"d"}`, "e")
	text := gatewaytest.Team("eng", "", "", p)
	folder := t.TempDir()
	s := gatewaytest.StartWith(t, text, gateway.Options{StateDir: folder})
	s.AwaitUpstreams()
	s.Legacy("2025-11-25", "").WantList("p.a", "p.e")
	upstreamtest.Equal(t, "unreadable p[1], unreadable p[2]", s.ReportNames(), "reports")
	s.Stop()
	p.Stop()
	again := gatewaytest.StartWith(t, text, gateway.Options{StateDir: folder})
	again.AwaitUpstreams()
	again.Legacy("2025-11-25", "").WantList("p.a", "p.e")
}
