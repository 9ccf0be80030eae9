package policy_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

func TestDiffSaysWhatChanges(t *testing.T) {
	when := conditions(t, `prompt.title == "T"`)
	tests := map[string]struct {
		change func(*config.Config)
		want   []policy.Change
	}{
		"nothing": {func(*config.Config) {}, nil},
		"order, labels and blocks": {func(c *config.Config) {
			slices.Reverse(c.Teams)
			slices.Reverse(c.Teams[3].Exposes)
			r := &c.Teams[3].Exposes[2] // which says two things, and is cut in two
			r.Label = "renamed"
			c.Teams[3].Exposes[2].To = selectors("user:bob")
			c.Teams[3].Exposes = append(c.Teams[3].Exposes, rule("payments.hcl:40", "cut off", "billing.invoice", "team:search"),
				rule("payments.hcl:41", "", "billing.review_*", "*"))
		}, nil},
		"an audience more and one less": {func(c *config.Config) {
			c.Teams[0].Exposes[1].To = selectors("team:search", "group:legal")
		}, []policy.Change{
			{policy.Less, "payments.hcl:21", `expose "invoices" of team "payments" does not show billing.invoice to user:bob any more`},
			{policy.More, "payments.hcl:21", `expose "invoices" of team "payments" shows billing.invoice to group:legal`},
		}},
		"a pattern more": {func(c *config.Config) {
			c.Teams[1].Exposes[0].Prompts = append(c.Teams[1].Exposes[0].Prompts, pattern("web.find"))
		}, []policy.Change{
			{policy.More, "search.hcl:5", `expose "for the readers" of team "search" shows web.find to team:readers`},
			{policy.More, "search.hcl:5", `expose "for the readers" of team "search" shows web.find to group:auditors`},
		}},
		"members": {func(c *config.Config) { c.Teams[2].Members = selectors("user:raj") }, []policy.Change{
			{policy.Less, "", `user:rita is not a member of team "readers" any more`},
			{policy.More, "", `user:raj is a member of team "readers"`},
		}},
		"hides": {func(c *config.Config) {
			c.Hides = nil
			c.Teams[1].Hides = []config.Rule{rule("search.hcl:9", "", "web.old_*")}
		}, []policy.Change{
			{policy.More, "gateway.hcl:9", `hide "no debug prompts" of the gateway does not remove *.debug_* any more`},
			{policy.Less, "search.hcl:9", `hide of team "search" removes web.old_* from everybody`},
		}},
		"upstreams": {func(c *config.Config) {
			c.Teams[0].Upstreams = []config.Upstream{
				{Name: "billing", Prefix: "pay", Place: place("payments.hcl:4")},
				{Name: "ledger", Prefix: "ledger", Place: place("payments.hcl:8")},
			}
			c.Teams[1].Upstreams[0].URLs = []string{"https://web.example.com/mcp"}
		}, []policy.Change{
			{policy.Less, "", `upstream "notes" of team "payments" is gone`},
			{policy.Other, "payments.hcl:4", `the prompts of upstream "billing" of team "payments" are called otherwise: with the prefix "pay" instead of without a prefix`},
			{policy.More, "payments.hcl:8", `upstream "ledger" of team "payments" is new: its members see its prompts, with the prefix "ledger"`},
			{policy.Other, "", `upstream "web" of team "search" is another server now: https://web.example.com/mcp instead of `},
		}},
		"a team that goes": {func(c *config.Config) { c.Teams = slices.Delete(c.Teams, 3, 4) }, []policy.Change{
			{policy.Less, "", `upstream "door" of team "open" is gone`},
			{policy.Less, "open.hcl:1", `user:eve is not a member of team "open" any more`},
			{policy.Less, "open.hcl:1", `user:anonymous is not a member of team "open" any more`},
		}},
		"no auth": {func(c *config.Config) { c.Auth = nil }, []policy.Change{
			{policy.More, "", "there is no auth block any more: everybody is in every team"},
		}},
		"no callers without a credential": {func(c *config.Config) { c.Auth = &config.Auth{} }, []policy.Change{
			{policy.Less, "", "callers without a credential see nothing any more"},
		}},
		"a when": {func(c *config.Config) { c.Teams[0].Exposes[1].When = when[0] }, []policy.Change{
			{policy.Less, "payments.hcl:21", `expose "invoices" of team "payments" does not show billing.invoice to team:search any more`},
			{policy.Less, "payments.hcl:21", `expose "invoices" of team "payments" does not show billing.invoice to user:bob any more`},
			{policy.More, "payments.hcl:21", `expose "invoices" of team "payments" shows billing.invoice to team:search when prompt.title == "T"`},
			{policy.More, "payments.hcl:21", `expose "invoices" of team "payments" shows billing.invoice to user:bob when prompt.title == "T"`},
		}},
		"prompt blocks": {func(c *config.Config) {
			c.Teams[0].Shapes = []config.Shape{
				{Prompt: "billing.a", Name: "billing.b", Place: place("payments.hcl:50")},
				{Prompt: "billing.c", Title: &c.Teams[0].Name, Place: place("payments.hcl:60")},
			}
		}, []policy.Change{
			{policy.Other, "payments.hcl:50", `prompt "billing.a" of team "payments" is called "billing.b" instead of "billing.a"`},
			{policy.Other, "payments.hcl:60", `prompt "billing.c" of team "payments" is described, or takes arguments, otherwise`},
		}},
		"names": {func(c *config.Config) { c.Gateway.Separator, c.Gateway.Conflict = "/", config.ConflictFirst }, []policy.Change{
			{policy.Other, "", `separator "/" instead of "": the names of all prompts with a prefix change`},
			{policy.Other, "", `conflict = "first" instead of ""`},
		}},
	}
	for name, test := range tests {
		after := company()
		test.change(after)
		if diff := cmp.Diff(test.want, policy.Diff(company(), after)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDiffIsSilentOnlyWhereEverybodySeesTheSame(t *testing.T) {
	differ, whens := 0, randomConditions(t)
	for seed := range uint64(3000) {
		before, after := newWorld(seed, whens), newWorld(seed, whens)
		before.cfg.Auth, after.cfg.Auth = &config.Auth{}, &config.Auth{}
		mutate(after, seed)
		if len(policy.Diff(&before.cfg, &after.cfg)) > 0 {
			continue
		}
		for _, e := range before.entries {
			for _, who := range before.principals {
				if was, is := visible(&before.cfg, who, e), visible(&after.cfg, who, e); was != is {
					t.Fatalf("seed %d: %v of %v is visible %v instead of %v, and nothing is said", seed, e, who, is, was)
				}
			}
		}
		differ++
	}
	if differ == 0 || differ == 3000 {
		t.Errorf("nothing was said of %d of 3000: the test tests nothing", differ)
	}
}

// mutate takes one thing away from a configuration, or something that does not count.
func mutate(w *world, seed uint64) {
	team := &w.cfg.Teams[int(seed)%len(w.cfg.Teams)]
	switch {
	case seed%7 == 0 && len(w.cfg.Hides) > 0:
		w.cfg.Hides = w.cfg.Hides[1:]
	case seed%7 == 1 && len(team.Exposes) > 0:
		team.Exposes = team.Exposes[1:]
	case seed%7 == 2 && len(team.Members) > 0:
		team.Members = team.Members[1:]
	case seed%7 == 3 && len(team.Upstreams) > 0:
		team.Upstreams = team.Upstreams[1:]
	case seed%7 == 4 && len(team.Hides) > 0:
		team.Hides = nil
	case seed%7 == 5 && len(team.Exposes) > 0:
		team.Exposes[0].When = nil
	default:
		slices.Reverse(team.Exposes)
		slices.Reverse(team.Members)
	}
}

func TestReadersAreWhoSeesAnEntry(t *testing.T) {
	whens := randomConditions(t)
	for seed := range uint64(500) {
		w := newWorld(seed, whens)
		w.cfg.Auth = &config.Auth{}
		p := policy.New(&w.cfg)
		for _, e := range w.entries {
			readers := p.Readers(e.team, e.upstream, e.name, []byte(e.definition))
			for _, who := range w.principals {
				if who.Anonymous || who.EveryTeam {
					continue
				}
				may, does := false, false // by what depends on more of the principal, and without
				for _, r := range readers {
					name := r.Who.String()
					if name == "*" || name == who.Subject || slices.Contains(who.Groups, name) {
						may, does = may || r.When != "", does || r.When == ""
					}
				}
				if sees := visible(&w.cfg, who, e); does && !sees || sees && !does && !may {
					t.Fatalf("seed %d: %v sees %v: %v; readers %v", seed, who, e, sees, readers)
				}
			}
		}
	}
	company := company()
	company.Auth = nil
	want := []policy.Reader{{Who: config.Selector{Kind: config.Anybody}, Rule: "search.hcl:1"}}
	if diff := cmp.Diff(want, policy.New(company).Readers("search", "web", "web.x", nil)); diff != "" {
		t.Errorf("without an auth block (-want +got):\n%s", diff)
	}
	if got := policy.New(company).HiddenBy("payments", "notes", "notes.wip_x", nil); got != "payments.hcl:30" {
		t.Errorf("HiddenBy = %q", got)
	}
}
