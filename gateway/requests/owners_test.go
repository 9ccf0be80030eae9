package requests_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/policy"
)

// Two upstreams own the entry "p.x". Who sees it depends on which of them serves it, so that each caller gets it from its own.
func TestOwners_AreJudgedOneByOne(t *testing.T) {
	a, b := gatewaytest.NewPeer(t, "a", "x", "y"), gatewaytest.NewPeer(t, "b", "x", "y")
	a.Settings, b.Settings = `prefix = "p"`, `prefix = "p"`
	s := gatewaytest.Serve(t, "auth {\n anonymous = true\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+gatewaytest.Token("eve")+"}\n"+
		gatewaytest.Team("eng", `"user:ann", "user:eve"`, `
expose "from b only" {
  prompts = ["p.x"]
  to      = ["user:bob"]
  when    = prompt.upstream == "b"
}
hide "eve stays away from b" {
  prompts = ["p.x"]
  when    = prompt["upstream"] == "b" && principal.subject == "user:eve"
}
hide "nothing from a or b" {
  prompts = ["p.y"]
  when    = contains(["a", "b"], prompt.upstream)
}
`, a, b))
	s.AwaitReplicas()
	want := func(who, method, params, from string) {
		t.Helper()
		r := s.Modern(who).CallUnchecked(method, params)
		if !strings.Contains(r.Body, from) {
			t.Errorf("%s by %q: %s, want %s", method, who, r.Body, from)
		}
	}
	get, complete := gatewaytest.GetParams("p.x"), gatewaytest.CompleteParams("p.x")
	for who, from := range map[string]string{"ann": "from a", "bob": "from b", "eve": "from a", "": "Unknown prompt"} {
		want(who, "prompts/get", get, from)
		want(who, "completion/complete", complete, from)
		want(who, "prompts/get", gatewaytest.GetParams("p.y"), "Unknown prompt")
	}
	s.Modern("bob").WantList("p.x")
	s.Modern("").WantList([]string{}...)
	for who, visible := range map[string][2]bool{"user:ann": {true, true}, "user:bob": {false, true}, "user:eve": {true, false}} {
		explained := s.Explain(policy.Principal{Subject: who}, "p.x")
		if len(explained) != 2 || explained[0].Visible != visible[0] || explained[1].Visible != visible[1] {
			t.Errorf("%s: %+v, want %v", who, explained, visible)
		}
	}

	// An owner that a caller may not have the prompt from is no failover, and its trouble is none of the caller's business.
	a.Stop()
	want("ann", "prompts/get", get, "from b")
	want("eve", "prompts/get", get, `"upstream":"a"`)
	s.AwaitTrouble("a")
	if r := s.Modern("bob").Call("prompts/list", ""); strings.Contains(r.Body, `"a"`) {
		t.Errorf("bob hears of an upstream that shows nothing to him: %s", r.Body)
	}
	s.Modern("ann").Call("prompts/list", "").Want(t, http.StatusOK, `"upstream":"a"`)
	if n := len(b.Calls("prompts/get")); n != 2 {
		t.Errorf("b had %d gets, want one of bob's and one of ann's", n)
	}
}
