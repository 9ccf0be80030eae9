package policy_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

func TestExplain_ListsEveryStep(t *testing.T) {
	p := policy.New(company())
	tests := []struct {
		who, upstream, name string
		want                policy.Decision
	}{
		{"bob", "billing", "billing.invoice", policy.Decision{
			Visible: true,
			Rule:    "payments.hcl:21",
			Reason:  `expose "invoices" of team "payments" shows it to user:bob`,
			Chain: []policy.Step{
				{Rule: "payments.hcl:4", Text: `upstream "billing" of team "payments" owns it`},
				{Rule: "payments.hcl:1", Text: `user:bob is not a member of team "payments"`},
				{Rule: "payments.hcl:21", Text: `expose "invoices" of team "payments" shows it to user:bob`, Decides: true},
			},
		}},
		{"rita", "billing", "billing.invoice", policy.Decision{
			Reason: `user:rita is not a member of team "payments", and no expose block of that team is for user:rita and matches "billing.invoice"`,
			Chain: []policy.Step{
				{Rule: "payments.hcl:4", Text: `upstream "billing" of team "payments" owns it`},
				{Rule: "payments.hcl:1", Text: `user:rita is not a member of team "payments"`},
				{Rule: "payments.hcl:21", Text: `expose "invoices" of team "payments" shows it to team:search, user:bob, not to user:rita`},
			},
		}},
		{"everybody", "billing", "notes.wip_.debug_", policy.Decision{
			Rule:   "gateway.hcl:9",
			Reason: `hide "no debug prompts" of the gateway removes it from everybody`,
			Chain: []policy.Step{
				{Rule: "payments.hcl:4", Text: `upstream "billing" of team "payments" owns it`},
				{Rule: "gateway.hcl:9", Text: `hide "no debug prompts" of the gateway removes it from everybody`, Decides: true},
				{Rule: "payments.hcl:30", Text: `hide "half-finished" of team "payments" removes it from everybody`},
				{Rule: "payments.hcl:1", Text: `user:anonymous is a member of team "payments", as of every team: there is no auth block`},
				{Rule: "payments.hcl:23", Text: `expose "sorry, hidden" of team "payments" shows it to user:bob, not to user:anonymous`},
			},
		}},
		{"bob", "web", "billing.invoice", policy.Decision{
			Reason: `no team "payments" has an upstream "web"`,
		}},
	}
	for _, test := range tests {
		got := p.Explain(principal(test.who), "payments", test.upstream, test.name, nil)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("Explain(%s, payments, %s, %s) (-want +got):\n%s", test.who, test.upstream, test.name, diff)
		}
	}
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
		// What it depends on if the claims, the definition or neither are known: nothing if empty.
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

func TestExplain_GivesTheFirstConditionThatDoesNotHold(t *testing.T) {
	p := conditional(t, `principal.subject == "user:ann"`, `contains(principal.groups, "group:g")`)
	want := policy.Decision{
		Reason: `expose of team "a" is for user:bob, and when = principal.subject == "user:ann" does not hold`,
		Chain: []policy.Step{
			{Rule: "x.hcl:101", Text: `upstream "u" of team "a" owns it`},
			{Rule: "x.hcl:100", Text: `user:bob is not a member of team "a"`},
			{Rule: "x.hcl:1", Text: `expose of team "a" is for user:bob, and when = principal.subject == "user:ann" does not hold`},
			{Rule: "x.hcl:2", Text: `expose of team "a" is for user:bob, and when = contains(principal.groups, "group:g") does not hold`},
		},
	}
	if diff := cmp.Diff(want, p.Explain(principal("bob"), "a", "u", "u.x", nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The second one shows it, whatever the first one says.
	if got := p.Explain(principal("bob,g"), "a", "u", "u.x", nil); !got.Visible || got.Rule != "x.hcl:2" {
		t.Errorf("Explain = %+v", got)
	}
}
