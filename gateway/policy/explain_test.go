package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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
