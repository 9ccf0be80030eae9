package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

func TestDiff_ReportsNamesThatChangeTheirOwner(t *testing.T) {
	// a has a bare name, a rename and a prefix.
	with := func(a, b config.Team) *config.Config {
		a.Name, b.Name = "a", "b"
		return &config.Config{Gateway: config.Gateway{Separator: "."}, Teams: []config.Team{a, b}}
	}
	upstream := func(prefixes ...string) (all []config.Upstream) {
		for _, prefix := range prefixes {
			all = append(all, config.Upstream{Name: "of " + prefix, Prefix: prefix})
		}
		return all
	}
	before := with(config.Team{
		Upstreams: upstream("", "ledger"),
		Overrides: []config.Override{{Prompt: "ledger.x", Name: "git.commit"}},
	}, config.Team{Upstreams: upstream("web")})
	for name, test := range map[string]struct {
		after *config.Config
		want  []string
	}{
		"nothing": {before, nil},
		"a new prefix takes over bare names and a rename": {
			with(before.Teams[0], config.Team{Upstreams: upstream("web", "git")}),
			[]string{`the name "git.commit" belongs to team "b" instead of team "a"`, `names that begin with "git." belong to team "b" instead of team "a"`},
		},
		"a prefix and the bare names change hands": {
			with(config.Team{Upstreams: upstream("web")}, config.Team{Upstreams: upstream("", "ledger")}),
			[]string{
				`names without a prefix belong to team "b" instead of team "a"`, `the name "git.commit" belongs to team "b" instead of team "a"`,
				`names that begin with "ledger." belong to team "b" instead of team "a"`, `names that begin with "web." belong to team "a" instead of team "b"`,
			},
		},
		"a name within several prefixes": {
			with(config.Team{Upstreams: upstream("", "ledger", "git"), Overrides: before.Teams[0].Overrides}, config.Team{Upstreams: upstream("web", "g", "git.commit", "git.co")}),
			[]string{`names that begin with "git.commit." belong to team "b" instead of team "a"`, `names that begin with "git.co." belong to team "b" instead of team "a"`, `names that begin with "g." belong to team "b" instead of team "a"`},
		},
		"a prefix within the team": {with(config.Team{Upstreams: upstream("", "ledger", "new"), Overrides: before.Teams[0].Overrides}, before.Teams[1]), nil},
	} {
		var got []string
		for _, change := range policy.Diff(before, test.after) {
			if change.Sign == policy.Other && strings.Contains(change.Text, " instead of team ") {
				got = append(got, change.Text)
			}
		}
		slices.Sort(got)
		slices.Sort(test.want)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDiff_ReportsEachChange(t *testing.T) {
	when := conditions(t, `prompt.title == "T"`)
	tests := map[string]struct {
		change func(*config.Config)
		want   []policy.Change
	}{
		"nothing": {func(*config.Config) {}, nil},
		"order, labels and blocks": {func(c *config.Config) {
			slices.Reverse(c.Teams)
			slices.Reverse(c.Teams[3].Exposes)
			r := &c.Teams[3].Exposes[2] // which names two, and is split
			r.Label = "renamed"
			c.Teams[3].Exposes[2].To = selectors("user:bob")
			c.Teams[3].Exposes = append(c.Teams[3].Exposes, rule("payments.hcl:40", "split off", "billing.invoice", "team:search"),
				rule("payments.hcl:41", "", "billing.review_*", "*"))
		}, nil},
		"one reader added and one removed": {func(c *config.Config) {
			c.Teams[0].Exposes[1].To = selectors("team:search", "group:legal")
		}, []policy.Change{
			{policy.Less, "payments.hcl:21", `expose "invoices" of team "payments" no longer shows billing.invoice to user:bob`},
			{policy.More, "payments.hcl:21", `expose "invoices" of team "payments" shows billing.invoice to group:legal`},
		}},
		"a pattern added": {func(c *config.Config) {
			c.Teams[1].Exposes[0].Prompts = append(c.Teams[1].Exposes[0].Prompts, pattern("web.find"))
		}, []policy.Change{
			{policy.More, "search.hcl:5", `expose "for the readers" of team "search" shows web.find to team:readers`},
			{policy.More, "search.hcl:5", `expose "for the readers" of team "search" shows web.find to group:auditors`},
		}},
		"members": {func(c *config.Config) { c.Teams[2].Members = selectors("user:raj") }, []policy.Change{
			{policy.Less, "", `user:rita is no longer a member of team "readers"`},
			{policy.More, "", `user:raj is a member of team "readers"`},
		}},
		"hides": {func(c *config.Config) {
			c.Hides = nil
			c.Teams[1].Hides = []config.Rule{rule("search.hcl:9", "", "web.old_*")}
		}, []policy.Change{
			{policy.More, "gateway.hcl:9", `hide "no debug prompts" of the gateway no longer removes *.debug_*`},
			{policy.Less, "search.hcl:9", `hide of team "search" removes web.old_* from everybody`},
		}},
		"upstreams": {func(c *config.Config) {
			c.Teams[0].Upstreams = []config.Upstream{
				{Name: "billing", Prefix: "pay", Place: place("payments.hcl:4")},
				{Name: "ledger", Prefix: "ledger", Place: place("payments.hcl:8")},
			}
			c.Teams[1].Upstreams[0].URL = "https://web.example.com/mcp"
		}, []policy.Change{
			{policy.Less, "", `upstream "notes" of team "payments" is removed`},
			{policy.Other, "payments.hcl:4", `the prompts of upstream "billing" of team "payments" are renamed: with the prefix "pay" instead of without a prefix`},
			{policy.More, "payments.hcl:8", `upstream "ledger" of team "payments" is new: the team's members see its prompts, with the prefix "ledger"`},
			{policy.Other, "", `upstream "web" of team "search" points to another server: https://web.example.com/mcp instead of `},
		}},
		"a transport": {func(c *config.Config) {
			c.Teams[1].Upstreams[0].Transport = config.SSE
		}, []policy.Change{
			{policy.Other, "", `upstream "web" of team "search" uses another transport: sse instead of `},
		}},
		"a team removed": {func(c *config.Config) { c.Teams = slices.Delete(c.Teams, 3, 4) }, []policy.Change{
			{policy.Less, "", `upstream "door" of team "open" is removed`},
			{policy.Less, "open.hcl:1", `user:eve is no longer a member of team "open"`},
			{policy.Less, "open.hcl:1", `user:anonymous is no longer a member of team "open"`},
		}},
		"no auth": {func(c *config.Config) { c.Auth = nil }, []policy.Change{
			{policy.More, "", "the auth block is removed: everybody is a member of every team"},
		}},
		"no callers without a credential": {func(c *config.Config) { c.Auth = &config.Auth{} }, []policy.Change{
			{policy.Less, "", "callers without a credential no longer see anything"},
		}},
		"a when": {func(c *config.Config) { c.Teams[0].Exposes[1].When = when[0] }, []policy.Change{
			{policy.Less, "payments.hcl:21", `expose "invoices" of team "payments" no longer shows billing.invoice to team:search`},
			{policy.Less, "payments.hcl:21", `expose "invoices" of team "payments" no longer shows billing.invoice to user:bob`},
			{policy.More, "payments.hcl:21", `expose "invoices" of team "payments" shows billing.invoice to team:search when prompt.title == "T"`},
			{policy.More, "payments.hcl:21", `expose "invoices" of team "payments" shows billing.invoice to user:bob when prompt.title == "T"`},
		}},
		"prompt blocks": {func(c *config.Config) {
			c.Teams[0].Overrides = []config.Override{
				{Prompt: "billing.a", Name: "billing.b", Place: place("payments.hcl:50")},
				{Prompt: "billing.c", Title: &c.Teams[0].Name, Place: place("payments.hcl:60")},
			}
		}, []policy.Change{
			{policy.Other, "payments.hcl:50", `prompt "billing.a" of team "payments" is renamed: "billing.b" instead of "billing.a"`},
			{policy.Other, "payments.hcl:60", `prompt "billing.c" of team "payments" has a different description or different arguments`},
		}},
		"names": {func(c *config.Config) { c.Gateway.Separator, c.Gateway.Conflict = "/", config.ConflictFirst }, []policy.Change{
			{policy.Other, "", `separator "/" instead of "": all prompts with a prefix are renamed`},
			{policy.Other, "", `conflict = "first" instead of ""`},
		}},
	}
	for name, test := range tests {
		checkDiff(t, name, company, test.change, test.want)
	}
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
	if diff := cmp.Diff(want, policy.New(company).Readers("search", "web", "web.x", nil)); diff != "" {
		t.Errorf("without an auth block (-want +got):\n%s", diff)
	}
	hidden := policy.New(company).HiddenBy("payments", "notes", "notes.wip_x", nil)
	if !strings.HasPrefix(hidden.Text, "hide ") || hidden.Rule != "payments.hcl:30" || !hidden.Decides {
		t.Errorf("HiddenBy = %+v", hidden)
	}
}
