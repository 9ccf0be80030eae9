package policy_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestDiff_ReportsNamesThatChangeTheirOwner(t *testing.T) {
	upstream := func(prefixes ...string) (all []config.Upstream) {
		for _, prefix := range prefixes {
			all = append(all, config.Upstream{Name: "of " + prefix, Prefix: prefix})
		}
		return all
	}
	// Team a has a bare name, a rename and a prefix.
	before := func() *config.Config {
		return &config.Config{Gateway: config.Gateway{Separator: "."}, Teams: []config.Team{
			{Name: "a", Upstreams: upstream("", "ledger"), Overrides: []config.Override{{Prompt: "ledger.x", Name: "git.commit"}}},
			{Name: "b", Upstreams: upstream("web")},
		}}
	}
	checkDiffs(t, "testdata/names.txtar", before, map[string]func(*config.Config){
		"a new prefix takes over bare names and a rename": func(c *config.Config) { c.Teams[1].Upstreams = upstream("web", "git") },
		"a prefix and the bare names change hands": func(c *config.Config) {
			c.Teams[0].Upstreams, c.Teams[0].Overrides, c.Teams[1].Upstreams = upstream("web"), nil, upstream("", "ledger")
		},
		"a name within several prefixes": func(c *config.Config) {
			c.Teams[0].Upstreams, c.Teams[1].Upstreams = upstream("", "ledger", "git"), upstream("web", "g", "git.commit", "git.co")
		},
		"a prefix within the team": func(c *config.Config) { c.Teams[0].Upstreams = upstream("", "ledger", "new") },
	})
}

func TestDiff_ReportsEachChange(t *testing.T) {
	when := conditions(t, `prompt.title == "T"`)
	checkDiffs(t, "testdata/visibility.txtar", company, map[string]func(*config.Config){
		"nothing": func(*config.Config) {},
		"order, labels and blocks": func(c *config.Config) {
			slices.Reverse(c.Teams)
			slices.Reverse(c.Teams[3].Exposes)
			r := &c.Teams[3].Exposes[2] // which names two, and is split
			r.Label = "renamed"
			c.Teams[3].Exposes[2].To = selectors("user:bob")
			c.Teams[3].Exposes = append(c.Teams[3].Exposes, rule("payments.hcl:40", "split off", "billing.invoice", "team:search"),
				rule("payments.hcl:41", "", "billing.review_*", "*"))
		},
		"upstreams": func(c *config.Config) {
			c.Teams[0].Upstreams = []config.Upstream{
				{Name: "billing", Prefix: "pay", Place: place("payments.hcl:4")},
				{Name: "ledger", Prefix: "ledger", Place: place("payments.hcl:8")},
			}
			c.Teams[1].Upstreams[0].URL = "https://web.example.com/mcp"
		},
		"a transport": func(c *config.Config) {
			c.Teams[1].Upstreams[0].Transport = config.SSE
		},
		"a team removed":                  func(c *config.Config) { c.Teams = slices.Delete(c.Teams, 3, 4) },
		"no auth":                         func(c *config.Config) { c.Auth = nil },
		"no callers without a credential": func(c *config.Config) { c.Auth = &config.Auth{} },
		"a when":                          func(c *config.Config) { c.Teams[0].Exposes[1].When = when[0] },
		"prompt blocks": func(c *config.Config) {
			c.Teams[0].Overrides = []config.Override{
				{Prompt: "billing.a", Name: "billing.b", Place: place("payments.hcl:50")},
				{Prompt: "billing.c", Title: &c.Teams[0].Name, Place: place("payments.hcl:60")},
			}
		},
		"names": func(c *config.Config) { c.Gateway.Separator, c.Gateway.Conflict = "/", config.ConflictFirst },
	})
}

func TestDiff_IsEmptyOnlyIfVisibilityIsEqual(t *testing.T) {
	empty, all, whens := 0, 0, randomConditions(t)
	rapid.Check(t, func(t *rapid.T) {
		draw, choices, at := drawn(t), []int{}, 0
		before := newWorld(func(n int) int { choices = append(choices, draw(n)); return choices[len(choices)-1] }, whens)
		after := newWorld(func(int) int { at++; return choices[at-1] }, whens)
		before.cfg.Auth, after.cfg.Auth = &config.Auth{}, &config.Auth{}
		mutate(after, draw(7), &after.cfg.Teams[draw(len(after.cfg.Teams))])
		if all++; len(policy.Diff(&before.cfg, &after.cfg)) > 0 {
			return
		}
		for _, e := range before.entries {
			for _, who := range before.principals {
				if was, is := visible(&before.cfg, who, e), visible(&after.cfg, who, e); was != is {
					t.Fatalf("%v is visible to %v: %v, before %v, and Diff is empty", e, who, is, was)
				}
			}
		}
		empty++
	})
	if empty == 0 || empty == all {
		t.Errorf("%d of %d diffs are empty: the test tests nothing", empty, all)
	}
}

// mutate removes one thing from a configuration, or changes something that does not matter.
func mutate(w *world, what int, team *config.Team) {
	switch {
	case what == 0 && len(w.cfg.Hides) > 0:
		w.cfg.Hides = w.cfg.Hides[1:]
	case what == 1 && len(team.Exposes) > 0:
		team.Exposes = team.Exposes[1:]
	case what == 2 && len(team.Members) > 0:
		team.Members = team.Members[1:]
	case what == 3 && len(team.Upstreams) > 0:
		team.Upstreams = team.Upstreams[1:]
	case what == 4 && len(team.Hides) > 0:
		team.Hides = nil
	case what == 5 && len(team.Exposes) > 0:
		team.Exposes[0].When = nil
	default:
		slices.Reverse(team.Exposes)
		slices.Reverse(team.Members)
	}
}

func TestReaders_AgreeWithVisibility(t *testing.T) {
	whens := randomConditions(t)
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(drawn(t), whens)
		w.cfg.Auth = &config.Auth{}
		p := policy.New(&w.cfg)
		for _, e := range w.entries {
			readers := p.Readers(e.team, e.upstream, e.name, []byte(e.definition))
			for _, who := range w.principals {
				if who.Anonymous || who.EveryTeam {
					continue
				}
				may, does := false, false // with a condition on the principal, and without
				for _, r := range readers {
					name := r.Who.String()
					if name == "*" || name == who.Subject || slices.Contains(who.Groups, name) {
						may, does = may || r.When != "", does || r.When == ""
					}
				}
				if sees := visible(&w.cfg, who, e); does && !sees || sees && !does && !may {
					t.Fatalf("%v sees %v: %v; readers %v", who, e, sees, readers)
				}
			}
		}
	})
	company := company()
	company.Auth = nil
	want := []policy.Reader{{Who: config.Selector{Kind: config.Anybody}, Rule: "search.hcl:1", By: `membership of team "search"`}}
	upstreamtest.Equal(t, want, policy.New(company).Readers("search", "web", "web.x", nil), "without an auth block")
	hidden := policy.New(company).HiddenBy("payments", "notes", "notes.wip_x", nil)
	if !strings.HasPrefix(hidden.Text, "hide ") || hidden.Rule != "payments.hcl:30" || !hidden.Decides {
		t.Errorf("HiddenBy = %+v", hidden)
	}
}
