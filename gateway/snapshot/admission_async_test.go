package snapshot_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

const (
	// costly takes minutes on the description of costlyPrompt.
	costly = `screen "costly" { patterns = ["(z.{0,30}){30}b|(z.{0,29}){30}c|(z.{0,28}){30}d"] }`
	cheap  = `screen "cheap" { patterns = ["never seen"] }`
)

func costlyPrompt() string {
	return fmt.Sprintf(`{"name":"costly","description":%q}`, strings.Repeat("z", 1<<19))
}

// costlyTeams is a configuration in which one team's screen may be costly.
func costlyTeams(screen, other string, slow, quick *gatewaytest.Peer) string {
	return gatewaytest.Team("one", "", screen, slow) + gatewaytest.Team("two", "", other, quick)
}

func TestAdmission_HoldsUpNobodyElse(t *testing.T) {
	slow, quick := gatewaytest.NewPeer(t, "slow", "plain"), gatewaytest.NewPeer(t, "quick", "a")
	r := gatewaytest.ServeReloadable(t, costlyTeams(costly, "", slow, quick), gateway.Options{})
	r.MustReload(costlyTeams(costly, "", slow, quick)) // from now on from the same file
	c := r.Modern("")
	c.WantList("quick.a", "slow.plain")
	changes := c.Listen("1")
	slow.AwaitStream()
	quick.AwaitStream()

	slow.Offer("plain", costlyPrompt())
	upstreamtest.Eventually(t, "the costly list has come", func() bool {
		return r.Snapshot().Connector("slow").State().Lists == 2
	})
	quick.Offer("a", "b")
	changes.WantChange()
	c.WantList("quick.a", "quick.b", "slow.plain")

	// A reload that does not change the team's rules keeps its earlier list and the admission under way.
	r.MustReload(costlyTeams(costly, `prompt "quick.a" { name = "renamed" }`, slow, quick))
	changes.WantChange()
	c.WantList("quick.b", "renamed", "slow.plain")
	quick.Offer("a")
	changes.WantChange()
	c.WantList("renamed", "slow.plain")

	// With other rules, the admission by the old ones is of no more interest.
	r.MustReload(costlyTeams(cheap, "", slow, quick))
	upstreamtest.Eventually(t, "the list is admitted by the new rules", func() bool { // in a second, unless the machine is busy
		return slices.Equal(c.List(), []string{"quick.a", "slow.costly", "slow.plain"})
	})

	// Back again, the list that other rules admitted must not be shown.
	r.MustReload(costlyTeams(costly, "", slow, quick))
	c.WantList("quick.a")
	r.Stop() // which fails the test if Run does not end
}

// The gateway is ready although one team's list takes long, and says which.
func TestAdmission_DoesNotHoldUpTheStart(t *testing.T) {
	slow, quick := gatewaytest.NewPeer(t, "slow", costlyPrompt()), gatewaytest.NewPeer(t, "quick", "a")
	s := gatewaytest.Start(t, costlyTeams(costly, "", slow, quick))
	upstreamtest.Eventually(t, "the gateway is ready", func() bool { return s.Ready().Ready })
	c := s.Modern("")
	c.Call("prompts/list", "{}").Want(t, 200, `"quick.a"`, `"io.github.promptweir/partial":[{"upstream":"slow","reason":"starting"`, `"stale":false`)
	for _, u := range s.Ready().Upstreams {
		if u.Listed != (u.Name == "quick") {
			t.Errorf("%s: listed = %v", u.Name, u.Listed)
		}
	}
}

// Neither does a list in the state_dir.
func TestStateDir_HoldsUpNoStartWithACostlyList(t *testing.T) {
	slow, quick := gatewaytest.NewPeer(t, "slow", costlyPrompt()), gatewaytest.NewPeer(t, "quick", "a")
	folder := t.TempDir()
	first, _ := serveWithStateDir(t, costlyTeams(cheap, "", slow, quick), folder)
	first.Modern("").WantList("quick.a", "slow.costly")
	first.Stop()
	slow.Stop()
	quick.Stop()
	second := gatewaytest.StartWith(t, costlyTeams(costly, "", slow, quick), gateway.Options{StateDir: folder})
	second.Modern("").WantList("quick.a")
}

// A server may list as many mistakes as prompts.
func TestAdmission_BoundsItsReports(t *testing.T) {
	var mistakes []string
	for i := range 1000 {
		mistakes = append(mistakes, fmt.Sprintf(`{"name":"%d","title":7}`, i))
	}
	p := gatewaytest.NewPeer(t, "p", mistakes...)
	var log gatewaytest.Log
	s := gatewaytest.StartWith(t, gatewaytest.Team("eng", "", "", p), gateway.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.AwaitUpstreams()
	reports := s.Reports()
	if n := len(reports); n != 101 || !strings.Contains(reports[n-1].Text, "900 more findings") {
		t.Errorf("%d reports, the last is %+v", n, reports[len(reports)-1])
	}
	upstreamtest.Eventually(t, "the first reports are logged", func() bool { return log.Count("kind=unreadable") == 50 })
}
