package inspect_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/wire"
)

func TestInspect_AgreesWithTheRunningGateway(t *testing.T) {
	s, billing, _ := gatewaytest.ServeTwoTeams(t, "auth {\n"+gatewaytest.Token("ann", "payments")+"}")
	s.Settle(t.Context())
	bob, err := identity.ParsePrincipal("user:bob")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"billing.review_pr", "find.query"}, s.EntryNames(&bob)); diff != "" {
		t.Errorf("bob (-want +got):\n%s", diff)
	}
	if got := len(s.Entries(nil)); got != 5 {
		t.Errorf("%d entries in all, want 5", got)
	}
	ask := func(who *policy.Principal, params string) (string, error) {
		object, err := wire.ParseObject([]byte(params))
		if err != nil {
			t.Fatal(err)
		}
		result, err := s.Call(t.Context(), who, "prompts/get", object, nil)
		return string(result), err
	}
	if _, err := ask(&bob, `{"name":"billing.ledger","arguments":{"year":"1"}}`); err == nil {
		t.Error("bob gets a prompt that bob may not see")
	}
	if _, err := ask(nil, gatewaytest.GetParams("billing.ledger")); err == nil {
		t.Error("a get without its required argument succeeds")
	}
	if got, err := ask(nil, `{"name":"billing.ledger","arguments":{"year":"1"}}`); err != nil || got != billing.Result("prompts/get") {
		t.Errorf("got %s, %v", got, err)
	}
	if all := s.Explain(bob, "billing.ledger"); len(all) != 1 || all[0].Visible || all[0].Upstream != "billing" || all[0].Own != "ledger" {
		t.Errorf("the explanation is %+v, want that ledger of billing is not visible", all)
	}
}
