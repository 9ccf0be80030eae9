package publish_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/gateway/snapshot/snapshottest"
	"github.com/promptweir/promptweir/upstream"
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
func costlyTeams(screen, other string) string {
	return team("one", "", screen, "slow") + team("two", "", other, "quick")
}

func TestAdmission_HoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	slow, quick := server("plain"), server("a")
	m := run(t, costlyTeams(costly, ""), snapshottest.Upstreams{"slow": slow, "quick": quick})
	m.Reload(costlyTeams(costly, "")) // from now on from the same file
	m.wantList("quick.a", "slow.plain")

	slow.List(gatewaytest.Definitions("plain", costlyPrompt())...)
	quick.List(gatewaytest.Definitions("a", "b")...)
	m.awaitList("quick.a", "quick.b", "slow.plain")

	// The server's state does not wait for its list.
	slow.Fail(upstream.Timeout, errors.New("down"))
	upstreamtest.Eventually(t, "the server is shown as down, with its earlier list", func() bool {
		state := m.Current().States[0]
		return state.Problem != nil && state.Listed && len(state.Definitions) == 1
	})

	// A reload that does not change the team's rules keeps its earlier list.
	m.Reload(costlyTeams(costly, `prompt "quick.a" { name = "renamed" }`))
	m.wantList("quick.b", "renamed", "slow.plain")
	quick.List(gatewaytest.Definitions("a")...)
	m.awaitList("renamed", "slow.plain")

	// Other rules end the admission by the old ones.
	m.Reload(costlyTeams(cheap, ""))
	m.awaitList("quick.a", "slow.costly", "slow.plain") // in a second, unless the machine is busy

	// Back again, the list that other rules admitted must not be shown.
	m.Reload(costlyTeams(costly, ""))
	m.wantList("quick.a")
	// The test ends only when Run does.
}

// Clients learn which list takes long.
func TestAdmission_DoesNotHoldUpTheStart(t *testing.T) {
	t.Parallel()
	m := run(t, costlyTeams(costly, ""), snapshottest.Upstreams{"slow": server(costlyPrompt()), "quick": server("a")})
	m.wantList("quick.a")
	s := m.Current()
	degraded := s.Degradations(s.Policy.Audience(anyone()))
	if len(degraded) != 1 || degraded[0].Upstream != "slow" || degraded[0].Reason != snapshot.Starting || degraded[0].Stale {
		t.Errorf("degraded: %+v, want slow, which is starting", degraded)
	}
	for i, u := range s.Upstreams {
		upstreamtest.Equal(t, u.Name == "quick", s.Listed(i), "%s: listed", u.Name)
	}
}

// Neither does a list in the state_dir.
func TestStateDir_HoldsUpNoStartWithACostlyList(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	saveLists(t, folder, costlyTeams(cheap, ""), snapshottest.Upstreams{"slow": server(costlyPrompt()), "quick": server("a")})
	m := newMemory(t, snapshottest.Load(t, costlyTeams(costly, "")), folder, nil)
	m.wantList("quick.a")
}

// A server may list as many mistakes as prompts.
func TestAdmission_BoundsItsReports(t *testing.T) {
	var mistakes []string
	for i := range 1000 {
		mistakes = append(mistakes, fmt.Sprintf(`{"name":"%d","title":7}`, i))
	}
	p := server()
	m := run(t, team("eng", "", "", "p"), snapshottest.Upstreams{"p": p})
	p.List(mistakes...)
	upstreamtest.Eventually(t, "the first reports are logged", func() bool { return m.log.Count("kind=unreadable") == 50 })
	reports := m.Current().Reports()
	if n := len(reports); n != 101 || !strings.Contains(reports[n-1].Text, "900 more findings") {
		t.Errorf("%d reports, the last is %+v", n, reports[len(reports)-1])
	}
}
