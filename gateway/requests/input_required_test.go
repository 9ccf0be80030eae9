package requests_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestInputRequired_StateHoldsForItsOwnRetryOnly(t *testing.T) {
	p := newInputRequiredPeer(`"plain"`)
	s := serve(t, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+teamOf("a", `"user:ann", "user:bob"`, "", p), p)
	ann, bob := s.modern("ann").with(`{"elicitation":{}}`).callUnchecked, s.modern("bob").with(`{"elicitation":{}}`).callUnchecked
	state := ann("prompts/get", `{"name":"up.ask","arguments":{"a":"1"}}`).RequestState(t)
	asked := len(p.calls("prompts/get"))
	refused := func(what string, a response) {
		t.Helper()
		if a.want(t, `"code":-32602`, `"reason":"state"`); t.Failed() {
			t.Errorf("%s is not refused", what)
		}
	}
	arguments := `,"arguments":{"a":"1"}`
	session, err := s.Current().Sealer.SealSession(seal.Session{Principal: "user:ann", Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	refused("another caller", bob("prompts/get", gatewaytest.RetryParams("up.ask", state, arguments)))
	refused("another prompt", ann("prompts/get", gatewaytest.RetryParams("up.other", state, arguments)))
	refused("another argument", ann("prompts/get", gatewaytest.RetryParams("up.ask", state, `,"arguments":{"a":"2"}`)))
	refused("no argument", ann("prompts/get", gatewaytest.RetryParams("up.ask", state, "")))
	refused("a state of one's own", ann("prompts/get", gatewaytest.RetryParams("up.ask", "plain", arguments)))
	refused("a damaged state", ann("prompts/get", gatewaytest.RetryParams("up.ask", gatewaytest.Damaged(state), arguments)))
	refused("answers without a state", ann("prompts/get", `{"name":"up.ask","inputResponses":{}}`))
	refused("a session token", ann("prompts/get", gatewaytest.RetryParams("up.ask", session, arguments)))
	upstreamtest.Equal(t, asked, len(p.calls("prompts/get")), "gets that reached the upstream")
	ann("prompts/get", gatewaytest.RetryParams("up.ask", state, ` , "arguments" : { "a" : "\u0031" }`)).want(t, `"resultType":"complete"`)
}

func TestInputRequired_NeedsTheClientsCapability(t *testing.T) {
	questions := func(method, params string) string {
		return fmt.Sprintf(`{"resultType":"input_required","inputRequests":{"q":{"method":%q,"params":%s}}}`, method, params)
	}
	p := newModernPeer("up", "ask")
	s := serve(t, teamOf("a", "", "", p), p)
	for _, test := range []struct{ declared, method, params, missing string }{
		{`{}`, "elicitation/create", `{}`, `{"elicitation":{"form":{}}}`},
		{`{"elicitation":{"url":{}}}`, "elicitation/create", `{}`, `{"elicitation":{"form":{}}}`},
		{`{"elicitation":{}}`, "elicitation/create", `{"mode":"url"}`, `{"elicitation":{"url":{}}}`},
		{`{"elicitation":{}}`, "sampling/createMessage", `{}`, `{"sampling":{}}`},
		{`{"sampling":{}}`, "sampling/createMessage", `{"tools":[]}`, `{"sampling":{"tools":{}}}`},
		{`{"sampling":{}}`, "roots/list", `{}`, `{"roots":{}}`},
		{`{"sampling":{}}`, "sampling/createMessage", `{}`, ""},
		{`{"elicitation":{"url":{}}}`, "elicitation/create", `{"mode":"url"}`, ""},
		{`{"roots":{}}`, "roots/list", `{}`, ""},
	} {
		p.answer("prompts/get", questions(test.method, test.params))
		got := s.modern("").with(test.declared).callUnchecked("prompts/get", `{"name":"up.ask"}`)
		if test.missing == "" {
			got.want(t, `"resultType":"input_required"`)
			continue
		}
		got.want(t, `"code":-32021`, `"requiredCapabilities":`+test.missing)
	}
	p.answer("prompts/get", questions("tools/call", "{}"))
	s.modern("").with(`{}`).callUnchecked("prompts/get", `{"name":"up.ask"}`).want(t, `"code":-32603`, `"reason":"bad_response"`)
	p.answer("completion/complete", questions("roots/list", "{}"))
	s.modern("").with(`{"roots":{}}`).callUnchecked("completion/complete", gatewaytest.CompleteParams("up.ask")).want(t, `"code":-32603`)
	s.legacy("2025-11-25", "").call("prompts/get", gatewaytest.GetParams("up.ask")).want(t, `"code":-32603`)
}
