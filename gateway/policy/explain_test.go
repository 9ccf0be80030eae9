package policy_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

func TestExplain_ListsEveryStep(t *testing.T) {
	whens := conditional(t, `principal.subject == "user:ann"`, `contains(principal.groups, "group:g")`)
	var got txtar.Archive
	for _, test := range []struct {
		name                      string
		p                         *policy.Policy
		who, team, upstream, asks string
	}{
		{"exposed to bob", policy.New(company()), "bob", "payments", "billing", "billing.invoice"},
		{"not exposed to rita", policy.New(company()), "rita", "payments", "billing", "billing.invoice"},
		{"hidden", policy.New(company()), "everybody", "payments", "billing", "notes.wip_.debug_"},
		{"no such upstream", policy.New(company()), "bob", "payments", "web", "billing.invoice"},
		{"the first condition that does not hold", whens, "bob", "a", "u", "u.x"},
		{"the second block, regardless of the first", whens, "bob,g", "a", "u", "u.x"},
	} {
		decision := test.p.Explain(principal(test.who), test.team, test.upstream, test.asks, nil)
		text := fmt.Appendf(nil, "visible: %t, by %q: %s\n", decision.Visible, decision.Rule, decision.Reason)
		for _, step := range decision.Chain {
			text = fmt.Appendf(text, "%s: %s, decides: %t\n", step.Rule, step.Text, step.Decides)
		}
		got.Files = append(got.Files, txtar.File{Name: test.name, Data: text})
	}
	checkArchive(t, "testdata/explain.txtar", &got)
}

// conditional is a team with one expose block to everybody for each condition, from x.hcl:1.
func conditional(t *testing.T, whens ...string) *policy.Policy {
	t.Helper()
	team := config.Team{Name: "a", Members: selectors("user:eve"), Upstreams: []config.Upstream{{Name: "u", Place: place("x.hcl:101")}}, Place: place("x.hcl:100")}
	for i, when := range conditions(t, whens...) {
		expose := rule("x.hcl:"+strconv.Itoa(i+1), "", "*", "*")
		expose.When = when
		team.Exposes = append(team.Exposes, expose)
	}
	return policy.New(&config.Config{Auth: &config.Auth{}, Teams: []config.Team{team}})
}

// The reader of "possibly visible" learns what to give so that the answer is yes or no, and is not
// asked for what would not change it.
func TestExplain_NamesWhatTheAnswerDependsOn(t *testing.T) {
	const (
		definition = "the prompt's definition"
		claims     = "the principal's claims"
		both       = definition + " and " + claims
	)
	for _, test := range []struct {
		when string
		// The missing facts if the claims, the definition or both are unknown; empty if the decision is certain.
		withClaims, withDefinition, withNeither string
	}{
		{`prompt.title == "T"`, definition, "", definition},
		{`principal.claims.tier == "gold"`, "", claims, claims},
		{`prompt.title == "T" && principal.claims.tier == "gold"`, definition, claims, both},
		{`prompt.title == "T" && principal.subject == "user:bob"`, definition, "", definition},
		{`contains(principal.groups, "group:g") || principal.claims.tier == "gold"`, "", claims, claims},
		{`prompt.name == "u.x" && principal.claims.tier == "gold"`, "", claims, claims},
		{`prompt.upstream == "u" && prompt["team"] == "a" && principal.claims.tier == "gold"`, "", claims, claims},
		{`prompt.name == "u.x" && principal.subject == "user:bob"`, "", "", ""},
	} {
		p := conditional(t, test.when)
		bob, unclaimed := principal("bob"), principal("bob")
		bob.Claims, unclaimed.ClaimsUnknown = `{"tier":"gold"}`, true
		ask := func(who policy.Principal, definition []byte, missing string) {
			t.Helper()
			got := p.Explain(who, "a", "u", "u.x", definition)
			if missing == "" {
				if got.Depends || !got.Visible {
					t.Errorf("%s: depends: %v, visible: %v", test.when, got.Depends, got.Visible)
				}
				return
			}
			want := "when = " + test.when + " depends on " + missing + ", which"
			if !got.Depends || !strings.Contains(got.Reason, want) {
				t.Errorf("%s: depends: %v, %s, want %s", test.when, got.Depends, got.Reason, want)
			}
		}
		ask(bob, []byte(`{"title":"T"}`), "")
		ask(bob, nil, test.withClaims)
		ask(unclaimed, []byte(`{"title":"T"}`), test.withDefinition)
		ask(unclaimed, nil, test.withNeither)
	}
}
