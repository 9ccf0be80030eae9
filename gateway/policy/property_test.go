package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

// world is a random policy, with the principals and the entries to try it on.
type world struct {
	// IntN draws a number below another.
	IntN       func(n int) int
	places     int
	cfg        config.Config
	whens      []*config.Condition
	principals []policy.Principal
	entries    []entry
}

type entry struct{ team, upstream, name, definition string }

func drawn(t *rapid.T) func(n int) int {
	return func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") }
}

func newWorld(draw func(n int) int, whens []*config.Condition) *world {
	w := &world{IntN: draw, whens: whens}
	w.cfg.Hides = w.rules(1, false)
	for team := range 1 + w.IntN(3) {
		name := fmt.Sprint("t", team)
		t := config.Team{Name: name, Exposes: w.rules(4, true), Hides: w.rules(1, false), Place: w.place()}
		t.Members = w.selectors("user:u0", "user:u1", "user:anonymous", "group:g0", "group:g1")
		for upstream := range w.IntN(3) {
			t.Upstreams = append(t.Upstreams, config.Upstream{Name: fmt.Sprint(name, "u", upstream), Team: name})
		}
		w.cfg.Teams = append(w.cfg.Teams, t)
	}
	for range 6 {
		w.principals = append(w.principals, w.principal())
	}
	for team := range 4 { // no team is called t3, and none owns all of its upstreams
		for upstream := range 3 {
			for _, name := range []string{"a.x", "a.y", "b.x", "ax", "x", ""} {
				w.entries = append(w.entries, entry{fmt.Sprint("t", team), fmt.Sprint("t", team, "u", upstream), name, w.one(`{}`,
					`{"title":"T","arguments":[{"name":"a"}],"_meta":{"public":true,"owner":"user:u0"}}`, `{"_meta":{"public":"yes"}}`)})
			}
		}
	}
	return w
}

func (w *world) rules(most int, expose bool) []config.Rule {
	rules := make([]config.Rule, w.IntN(most+1))
	for i := range rules {
		for range 1 + w.IntN(2) {
			rules[i].Prompts = append(rules[i].Prompts, pattern(w.one("a.x", "a.*", "*.x", "?.y", "[ab].x", "x", "b*")))
		}
		if expose {
			rules[i].To = w.selectors("user:u0", "user:u2", "user:anonymous", "group:g0", "group:u0", "*",
				"team:t0", "team:t1", "team:t2")
		}
		rules[i].Place = w.place()
		if len(w.whens) > 0 && w.IntN(2) == 0 {
			rules[i].When = w.whens[w.IntN(len(w.whens))]
		}
	}
	return rules
}

func (w *world) selectors(choice ...string) (all []config.Selector) {
	for range w.IntN(3) {
		all = append(all, selectors(w.one(choice...))...)
	}
	return all
}

func (w *world) principal() policy.Principal {
	switch w.IntN(8) {
	case 0:
		return principal("everybody")
	case 1:
		return principal("anonymous")
	}
	who := policy.Principal{Subject: w.one("user:u0", "user:u1", "user:u2", "user:g0", "user:anonymous")}
	who.Claims = w.one("", `{"tier":"gold"}`, `{"tier":"gold","x":1}`, `{"tier":7}`, `{"tier":null}`)
	for range w.IntN(3) {
		who.Groups = append(who.Groups, w.one("group:g0", "group:g1", "group:g2"))
	}
	return who
}

func (w *world) one(of ...string) string { return of[w.IntN(len(of))] }

// place returns a new place each time, so that a place identifies a rule.
func (w *world) place() config.Place {
	w.places++
	return config.Place{File: "x.hcl", Line: w.places}
}

// visible decides from the configuration directly, without anything precomputed.
func visible(cfg *config.Config, who policy.Principal, e entry) bool {
	matches := func(r config.Rule) bool { return r.Matches(e.name) }
	for _, t := range cfg.Teams {
		owns := func(u config.Upstream) bool { return u.Name == e.upstream }
		if t.Name != e.team || !slices.ContainsFunc(t.Upstreams, owns) {
			continue
		}
		hides := func(r config.Rule) bool { return matches(r) && holds(r, who, e, true) }
		if slices.ContainsFunc(cfg.Hides, hides) || slices.ContainsFunc(t.Hides, hides) {
			return false
		}
		exposed := func(r config.Rule) bool { return matches(r) && isFor(cfg, who, r.To) && holds(r, who, e, false) }
		return memberOf(cfg, who, t.Name) || slices.ContainsFunc(t.Exposes, exposed)
	}
	return false
}

func holds(r config.Rule, who policy.Principal, e entry, fallback bool) bool {
	if r.When == nil {
		return true
	}
	result, err := r.When.Holds(config.NewPromptFacts(e.name, e.upstream, e.team, []byte(e.definition)),
		config.NewPrincipalFacts(who.Subject, who.Groups, who.Claims))
	if err != nil {
		return fallback
	}
	return result
}

// conditions loads when expressions.
func conditions(t testing.TB, whens ...string) (all []*config.Condition) {
	t.Helper()
	var text strings.Builder
	for _, when := range whens {
		fmt.Fprintf(&text, "hide \"x\" {\n  prompts = [\"*\"]\n  when = %s\n}\n", when)
	}
	path := filepath.Join(t.TempDir(), "x.hcl")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, diags := config.Load(path, config.Options{})
	if err := diags.Err(); err != nil {
		t.Fatal(err)
	}
	for _, hide := range cfg.Hides {
		all = append(all, hide.When)
	}
	return all
}

// randomConditions returns conditions of every kind: on the prompt, the principal, both and neither, and ones that fail.
func randomConditions(t testing.TB) []*config.Condition {
	t.Helper()
	return conditions(t, `prompt.title == "T"`, `length(prompt.arguments) == 0`, `prompt.meta.public`, `try(prompt.meta.public, false)`,
		`principal.subject == "user:u0"`, `contains(principal.groups, "group:g0")`, `principal.claims.tier == "gold"`,
		`try(principal.claims.tier, "") == "gold"`, `principal.subject == try(prompt.meta.owner, "")`, `contains(principal.groups, prompt.name)`,
		`prompt.name != "a.x" || principal.claims.tier == 7`, `prompt.upstream == "t0u1"`,
		`prompt["upstream"] != "t1u0" && principal.subject == "user:u0"`, `true`, `false`)
}

func memberOf(cfg *config.Config, who policy.Principal, team string) bool {
	if who.EveryTeam || who.Anonymous {
		return who.EveryTeam
	}
	is := func(t config.Team) bool { return t.Name == team && isFor(cfg, who, t.Members) }
	return slices.ContainsFunc(cfg.Teams, is)
}

func isFor(cfg *config.Config, who policy.Principal, to []config.Selector) bool {
	return slices.ContainsFunc(to, func(s config.Selector) bool {
		return s.Kind == config.Anybody || s.String() == who.Subject || slices.Contains(who.Groups, s.String()) ||
			s.Kind == config.TeamMembers && memberOf(cfg, who, s.Name)
	})
}

// For random policies, principals and entries: Sees decides as the configuration says, Explain agrees and names the rule,
// and principals of one audience all see the same.
func TestPolicy_AgreesWithTheConfiguration(t *testing.T) {
	whens := randomConditions(t)
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(drawn(t), whens)
		p := policy.New(&w.cfg)
		sees := map[*policy.Audience][]bool{}
		for _, who := range w.principals {
			audience, seen := p.Audience(who), []bool{}
			for _, e := range w.entries {
				want := visible(&w.cfg, who, e)
				visibility := p.Visibility(e.team, e.upstream, e.name, []byte(e.definition))
				for range 2 { // decided, and remembered
					if got := audience.Sees(visibility); got != want {
						t.Fatalf("%+v sees %+v: %v, want %v", who, e, got, want)
					}
				}
				if want && !audience.SeesTeam(e.team) {
					t.Fatalf("%+v sees %+v but nothing of team %s", who, e, e.team)
				}
				checkDecision(t, p.Explain(who, e.team, e.upstream, e.name, []byte(e.definition)), want)
				for _, other := range upstreamsOf(&w.cfg, e) {
					alike := audience.Sees(p.Visibility(e.team, other, e.name, []byte(e.definition))) == want
					if !alike && !p.ReadsUpstream(e.team, e.name) {
						t.Fatalf("%+v sees %+v otherwise of %s, though nothing reads the upstream", who, e, other)
					}
				}
				if open := p.Explain(who, e.team, e.upstream, e.name, nil); !open.Depends && open.Visible != want || open.Depends && open.Visible {
					t.Fatalf("without the definition of %+v: %+v, want %v", e, open, want)
				}
				seen = append(seen, want)
			}
			if before, ok := sees[audience]; ok && !slices.Equal(before, seen) {
				t.Fatalf("%+v shares an audience with somebody who sees other prompts", who)
			}
			sees[audience] = seen
		}
	})
}

// upstreamsOf returns the upstreams that may own an entry.
func upstreamsOf(cfg *config.Config, e entry) (names []string) {
	for _, t := range cfg.Teams {
		for _, u := range t.Upstreams {
			if t.Name == e.team {
				names = append(names, u.Name)
			}
		}
	}
	if !slices.Contains(names, e.upstream) {
		return nil
	}
	return names
}

func checkDecision(t *rapid.T, d policy.Decision, visible bool) {
	t.Helper()
	deciding := slices.DeleteFunc(slices.Clone(d.Chain), func(s policy.Step) bool { return !s.Decides })
	switch {
	case d.Visible != visible || d.Reason == "":
		t.Fatalf("Explain = %+v, want visible %v and a reason", d, visible)
	case len(deciding) > 1, len(deciding) == 1 && deciding[0].Rule != d.Rule, len(deciding) == 0 && d.Rule != "":
		t.Fatalf("Explain names %q, but its chain has %+v decide", d.Rule, deciding)
	case d.Visible && d.Rule == "":
		t.Fatalf("Explain = %+v, visible by no rule", d)
	}
}

func TestAudience_IsSharedByIndistinguishablePrincipals(t *testing.T) {
	p := policy.New(company())
	same := func(one, other string, want bool) {
		t.Helper()
		if got := p.Audience(principal(one)) == p.Audience(principal(other)); got != want {
			t.Errorf("%s and %s share an audience: %v, want %v", one, other, got, want)
		}
	}
	same("alice", "carol,payments", true)
	same("alice,payments", "carol,unheard,of", false)
	same("trent", "mallory,of,unheard,groups", true)
	same("trent", "anonymous", true)
	same("trent", "bob", false)
	same("trent", "eve", false)
	same("eve", "anonymous", false)
	same("rita", "x,auditors", true) // her team owns nothing: it is only a set of people
	same("rita", "trent", false)
}

// crowd is a policy with as many audiences as there are sets of its 14 groups.
func crowd() (p *policy.Policy, member func(int) policy.Principal) {
	cfg := &config.Config{}
	for i := range 14 {
		group := fmt.Sprint("group:", i)
		cfg.Teams = append(cfg.Teams, config.Team{
			Name: group, Members: selectors(group), Upstreams: []config.Upstream{{Name: group}},
		})
	}
	return policy.New(cfg), func(set int) policy.Principal {
		who := policy.Principal{Subject: "user:x"}
		for i := range cfg.Teams {
			if set&(1<<i) != 0 {
				who.Groups = append(who.Groups, cfg.Teams[i].Name)
			}
		}
		return who
	}
}

func TestAudience_IsSafeForConcurrentUse(t *testing.T) {
	p, member := crowd()
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for set := range 12_000 {
				visibility := p.Visibility("group:3", "group:3", "x", nil)
				if got, want := p.Audience(member(set)).Sees(visibility), set&8 != 0; got != want {
					t.Errorf("Sees for set %b = %v, want %v", set, got, want)
				}
			}
		})
	}
	callers.Wait()
}
