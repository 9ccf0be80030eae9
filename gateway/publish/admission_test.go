package publish_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot/snapshottest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestAdmission_LeavesOutWhatTheLockDoesNotApprove(t *testing.T) {
	p, free := server(`{"name":"a","title":"A"}`, "b"), server("x")
	servers := snapshottest.Upstreams{"p": p, "free": free}
	locked := func(mode string, lock config.Lock) *memory {
		return newMemory(t, gatewaytest.LoadLocked(t, team("eng", "", mode, "p")+team("other", "", "", "free"), lock), "", servers)
	}
	lock := inspect.Lock(locked("", nil).Current())
	if len(lock) != 3 {
		t.Fatalf("the lock has %d prompts, want 3", len(lock))
	}
	for _, test := range []struct {
		mode    string
		list    []string
		reports string
	}{
		{`lock = "enforce"`, []string{"free.x", "p.a", "p.b"}, ""},
		{`lock = "enforce"`, []string{"free.x", "free.y", "p.a"}, "drift p.b, drift p.c"},
		{`lock = "warn"`, []string{"free.x", "free.y", "p.a", "p.b", "p.c"}, "drift p.b, drift p.c"},
	} {
		m := locked(test.mode, lock)
		m.wantList(test.list...)
		upstreamtest.Equal(t, test.reports, gatewaytest.ReportNames(m.Current()), "reports of %s", test.mode)
		p.List(`{"title":"\u0041","name":"a"}`, `{"name":"b","description":"new"}`, `{"name":"c"}`)
		free.List(gatewaytest.Definitions("x", "y")...)
	}
	approved := inspect.Lock(locked(`lock = "enforce"`, lock).Current()) // includes the definitions that were left out
	if changes := config.DiffLocks(lock, approved); len(changes) != 3 || changes[1].After.Definition != `{"description":"new"}` {
		t.Errorf("the new lock has the changes %v, want three", changes)
	}
	again := locked(`lock = "enforce"`, approved)
	again.wantList("free.x", "free.y", "p.a", "p.b", "p.c")
	upstreamtest.Equal(t, "", gatewaytest.ReportNames(again.Current()), "reports after approval")
}

func TestAdmission_AppliesTheLockToSavedLists(t *testing.T) {
	folder := t.TempDir()
	lock := inspect.Lock(saveLists(t, folder, team("eng", "", "", "p"), snapshottest.Upstreams{"p": server("a", "b")}).Current())
	m := newMemory(t, gatewaytest.LoadLocked(t, team("eng", "", `lock = "enforce"`, "p"), lock[:1]), folder, nil)
	m.wantList("p.a")
	upstreamtest.Equal(t, "drift p.b", gatewaytest.ReportNames(m.Current()), "reports")
	upstreamtest.Equal(t, 2, len(inspect.Lock(m.Current())), "prompts in a new lock of saved lists")
}

func TestAdmission_MasksSecretsThatAServerRepeats(t *testing.T) {
	s := snapshottest.New(t, `team "eng" {
  upstream "p" {
    url     = "https://127.0.0.1:1/p"
    headers = { X-Key = "hunter2-secret" }
  }
}`, snapshottest.Upstreams{"p": server("a", `{"name":"b","hunter2-secret":1,"hunter2-secret":2}`, `{"name":"c","icons":[{"src":1,"hunter2-secret":1}]}`)}).Current()
	if got, want := gatewaytest.ReportNames(s), "unreadable p[1], unreadable p[2]"; got != want {
		t.Fatalf("reports %q, want %q", got, want)
	}
	if got := s.Reports()[0].Text; strings.Contains(got, "hunter2") || !strings.Contains(got, `duplicate name "(sensitive)"`) {
		t.Errorf("a secret shows: %s", got)
	}
}

func TestAdmission_LeavesOutNamesThatPeopleCannotTell(t *testing.T) {
	p := server("a", `{"name":"a\u200b"}`, `{"name":"\u202ea"}`, `{"name":"b\u3164"}`, `{"name":"renamed\ue000"}`, `{"name":"tab\t"}`, "zoë (1)",
		`{"name":"love\u2764\ufe0f"}`, `{"name":"\u0646\u0627\u0645\u0647\u200c\u0647\u0627"}`, "v1", `{"name":"v1\ufe0f"}`)
	m := newMemory(t, snapshottest.Load(t, team("eng", "", `prompt "p.renamed\ue000" { name = "p.renamed" }`, "p")), "", snapshottest.Upstreams{"p": p})
	m.wantList("p.a", "p.love\u2764\ufe0f", "p.renamed", "p.v1", "p.v1\ufe0f", "p.zoë (1)", "p.\u0646\u0627\u0645\u0647\u200c\u0647\u0627")
	s := m.Current()
	if got, want := gatewaytest.ReportNames(s), "folded_names p.v1, invisible_name p.a\u200b, invisible_name p.\u202ea, invisible_name p.b\u3164, invisible_name p.tab\t"; got != want {
		t.Errorf("reports %q, want %q", got, want)
	}
	for _, r := range s.Reports() {
		if r.Kind == catalog.InvisibleName && !strings.Contains(r.Text, strconv.QuoteToASCII(r.Name)) {
			t.Errorf("the report does not show the characters: %q", r.Text)
		}
	}
	explained := inspect.Explain(s, policy.Principal{EveryTeam: true}, "p.a\u200b")
	if len(explained) != 1 || explained[0].Visible || !strings.Contains(explained[0].Reason, "invisible characters") {
		t.Errorf("Explain = %+v", explained)
	}
}

func TestAdmission_ScreensTheExposedName(t *testing.T) {
	m := newMemory(t, snapshottest.Load(t, team("eng", "", `
  prompt "p.b" { name = "p.evil" }
  screen "names" { patterns = ["evil", "^p[.]c$"] }
`, "p")), "", snapshottest.Upstreams{"p": server("a", "b", "c")})
	m.wantList("p.a")
	upstreamtest.Equal(t, "screened p.b, screened p.c", gatewaytest.ReportNames(m.Current()), "reports")
}

// One definition that no strict reader accepts costs its upstream that definition, and not its list.
func TestAdmission_LeavesOutInvalidDefinitionOnly(t *testing.T) {
	folder, text := t.TempDir(), team("eng", "", "", "p")
	m := saveLists(t, folder, text, snapshottest.Upstreams{"p": server("a", `{"name":"b","description":"\ud800"}`, `{"name":"c","name":"d"}`, "e")})
	m.wantList("p.a", "p.e")
	upstreamtest.Equal(t, "unreadable p[1], unreadable p[2]", gatewaytest.ReportNames(m.Current()), "reports")
	newMemory(t, snapshottest.Load(t, text), folder, nil).wantList("p.a", "p.e")
}
