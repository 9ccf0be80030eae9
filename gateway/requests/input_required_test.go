package requests_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

func TestInputRequired_PassesRequestsAndRepliesWithASealedState(t *testing.T) {
	for _, own := range []string{"", `"plain"`, `"\u0041 <b> \/"`} {
		p := gatewaytest.NewInputRequiredPeer(t, own)
		s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", p))
		call := s.ModernWith("", `{"elicitation":{}}`)
		first := call("prompts/get", `{"name":"up.ask"}`)
		first.Want(t, 200, `"resultType":"input_required"`, `"inputRequests":`+gatewaytest.InputRequests, `"x":2.50`)
		if strings.Contains(first.Body, "plain") {
			t.Errorf("the upstream's state is not sealed: %s", first.Body)
		}
		call("prompts/get", gatewaytest.RetryParams("up.ask", first.RequestState(t), "")).Want(t, 200, `"resultType":"complete"`, `"messages":[]`)
		gets := p.Calls("prompts/get")
		var params struct {
			RequestState, InputResponses json.RawMessage
			Meta                         map[string]json.RawMessage `json:"_meta"`
		}
		if err := json.Unmarshal(gets[len(gets)-1].Params, &params); err != nil {
			t.Fatal(err)
		}
		if string(params.RequestState) != own {
			t.Errorf("the upstream receives the state %s, want %s", params.RequestState, own)
		}
		if got := string(params.Meta["io.modelcontextprotocol/clientCapabilities"]); got != `{"elicitation":{}}` {
			t.Errorf("the upstream receives the capabilities %s", got)
		}
	}
}

func TestInputRequired_StateHoldsForItsOwnRetryOnly(t *testing.T) {
	p := gatewaytest.NewInputRequiredPeer(t, `"plain"`)
	s := gatewaytest.Serve(t, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+gatewaytest.Team("a", `"user:ann", "user:bob"`, "", p))
	ann, bob := s.ModernWith("ann", `{"elicitation":{}}`), s.ModernWith("bob", `{"elicitation":{}}`)
	state := ann("prompts/get", `{"name":"up.ask","arguments":{"a":"1"}}`).RequestState(t)
	asked := len(p.Calls("prompts/get"))
	refused := func(what string, a gatewaytest.Response) {
		t.Helper()
		if a.Want(t, 200, `"code":-32602`, `"reason":"state"`); t.Failed() {
			t.Errorf("%s is not refused", what)
		}
	}
	arguments := `,"arguments":{"a":"1"}`
	refused("another caller", bob("prompts/get", gatewaytest.RetryParams("up.ask", state, arguments)))
	refused("another prompt", ann("prompts/get", gatewaytest.RetryParams("up.other", state, arguments)))
	refused("another argument", ann("prompts/get", gatewaytest.RetryParams("up.ask", state, `,"arguments":{"a":"2"}`)))
	refused("no argument", ann("prompts/get", gatewaytest.RetryParams("up.ask", state, "")))
	refused("a state of one's own", ann("prompts/get", gatewaytest.RetryParams("up.ask", "plain", arguments)))
	refused("a damaged state", ann("prompts/get", gatewaytest.RetryParams("up.ask", state[:len(state)-2]+"AA", arguments)))
	refused("answers without a state", ann("prompts/get", `{"name":"up.ask","inputResponses":{}}`))
	refused("a session token", ann("prompts/get", gatewaytest.RetryParams("up.ask", sessionToken(t, s, "ann"), arguments)))
	if now := len(p.Calls("prompts/get")); now != asked {
		t.Errorf("%d of these reached the upstream", now-asked)
	}
	ann("prompts/get", gatewaytest.RetryParams("up.ask", state, ` , "arguments" : { "a" : "\u0031" }`)).Want(t, 200, `"resultType":"complete"`)
}

// sessionToken returns a token that the gateway sealed for a session.
func sessionToken(t *testing.T, s *gatewaytest.Server, who string) string {
	t.Helper()
	session := gatewaytest.Send(t, http.MethodPost, s.URL, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":`+gatewaytest.InitializeParams("2025-11-25")+`}`, gatewaytest.Bearer(who))
	session.Want(t, http.StatusOK)
	token := session.Header.Get("Mcp-Session-Id")
	if token == "" {
		t.Fatal("initialize returned no session token")
	}
	return token
}

func TestInputRequired_NeedsTheClientsCapability(t *testing.T) {
	questions := func(method, params string) string {
		return fmt.Sprintf(`{"resultType":"input_required","inputRequests":{"q":{"method":%q,"params":%s}}}`, method, params)
	}
	p := gatewaytest.NewModernPeer(t, "up", "ask")
	s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", p))
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
		p.Answer("prompts/get", questions(test.method, test.params))
		got := s.ModernWith("", test.declared)("prompts/get", `{"name":"up.ask"}`)
		if test.missing == "" {
			got.Want(t, 200, `"resultType":"input_required"`)
			continue
		}
		got.Want(t, 400, `"code":-32021`, `"requiredCapabilities":`+test.missing)
	}
	p.Answer("prompts/get", questions("tools/call", "{}"))
	s.ModernWith("", `{}`)("prompts/get", `{"name":"up.ask"}`).Want(t, 200, `"code":-32603`, `"reason":"bad_response"`)
	p.Answer("completion/complete", questions("roots/list", "{}"))
	s.ModernWith("", `{"roots":{}}`)("completion/complete", gatewaytest.CompleteParams("up.ask")).Want(t, 200, `"code":-32603`)
	s.Legacy("2025-11-25", "").Call("prompts/get", gatewaytest.GetParams("up.ask")).Want(t, 200, `"code":-32603`)
}

func TestInputRequired_LegacyClientRepliesToAModernServer(t *testing.T) {
	p := gatewaytest.NewInputRequiredPeer(t, `"\u0041 <b> \/"`)
	s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", p))
	c := s.LegacyWith("2025-06-18", "", `{"elicitation":{}}`)
	asked := c.GetStream("7", gatewaytest.GetParams("up.ask"))
	c.Reply(asked.WantElicitation("2025-06-18"), `{"action":"accept","content":{"name":"x"}}`)
	data := asked.Next().Data
	gatewaytest.CheckSchema(t, "2025-06-18", "prompts/get", data)
	if strings.Contains(data, "resultType") {
		t.Errorf("got %s", data)
	}
	gets := p.Calls("prompts/get")
	for _, part := range []string{`"inputResponses":{"who":{"action":"accept","content":{"name":"x"}}}`, `"requestState":"\u0041 <b> \/"`} {
		if got := string(gets[len(gets)-1].Params); !strings.Contains(got, part) {
			t.Errorf("the server receives %s, want %s in it", got, part)
		}
	}
	s.LegacyWith("2025-06-18", "", `{}`).Call("prompts/get", gatewaytest.GetParams("up.ask")).Want(t, 200, `-32021`, `{"elicitation":{"form":{}}}`)

	p.Answer("prompts/get", `{"resultType":"input_required","inputRequests":`+gatewaytest.InputRequests+`}`)
	p.Intercept(nil)
	p.Forget()
	asked = c.GetStream("8", gatewaytest.GetParams("up.ask"))
	for range 8 {
		c.Reply(asked.WantElicitation("2025-06-18"), `{"action":"decline"}`)
	}
	if data := asked.Next().Data; !strings.Contains(data, `"code":-32603`) || !strings.Contains(data, "too many times") {
		t.Errorf("got %s", data)
	}
	gets = p.Calls("prompts/get")
	if got := string(gets[len(gets)-1].Params); len(gets) != 9 || !strings.Contains(got, `"decline"`) {
		t.Errorf("the server receives %d gets, the last with %s, want each reply in one after the first", len(gets), got)
	}
}

// A get that began again would ask a person the same twice.
func TestInputRequired_AsksNothingTwiceWhereAReloadReplacesTheServer(t *testing.T) {
	p := gatewaytest.NewInputRequiredPeer(t, `"state"`)
	text := func(timeout string) string {
		p.Settings = fmt.Sprintf("timeout = %q", timeout)
		return gatewaytest.Team("a", "", "", p)
	}
	r := gatewaytest.ServeReloadable(t, text("5s"), gateway.Options{})
	c := r.LegacyWith("2025-06-18", "", `{"elicitation":{}}`)
	asked := c.GetStream("7", gatewaytest.GetParams("up.ask"))
	id := asked.WantElicitation("2025-06-18")
	r.MustReload(text("6s"))
	c.Reply(id, `{"action":"accept","content":{"name":"x"}}`)
	if data := asked.Next().Data; !strings.Contains(data, `"reason":"starting"`) || !strings.Contains(data, `"retryAfterMs"`) {
		t.Errorf("got %s, want that the server is starting", data)
	}
}
