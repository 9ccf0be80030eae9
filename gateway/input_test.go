package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const question = `{"who":{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}}`

// asker is a modern peer whose prompt asks who it is for, with a state of its own where that is not empty.
func asker(t *testing.T, state string) *peer {
	p := newModernPeer(t, "up", "ask", "other")
	p.intercept(func(w http.ResponseWriter, _ *http.Request, call heard) bool {
		if call.Method != "prompts/get" {
			return false
		}
		var params struct{ InputResponses json.RawMessage }
		if err := json.Unmarshal(call.Params, &params); err != nil {
			t.Error(err)
		}
		result := `{"resultType":"complete","messages":[]}`
		if params.InputResponses == nil {
			result = `{"resultType":"input_required","x":2.50,"inputRequests":` + question
			if state != "" {
				result += `,"requestState":` + state
			}
			result += "}"
		}
		p.respond(w, call, result)
		return true
	})
	return p
}

// capable is a modern client that declares what it can be asked.
func (s *server) capable(token, capabilities string) func(method, params string) answer {
	c := s.modern(token)
	return func(method, params string) answer {
		body, h := c.envelope("7", method, params)
		body = strings.Replace(body, `"io.modelcontextprotocol/clientCapabilities":{}`,
			`"io.modelcontextprotocol/clientCapabilities":`+capabilities, 1)
		return send(s.t, http.MethodPost, s.url, body, h)
	}
}

// state is the requestState of an answer.
func (a answer) state(t *testing.T) string {
	t.Helper()
	var state string
	if err := json.Unmarshal(a.result(t, "requestState"), &state); err != nil {
		t.Fatalf("no requestState: %s", a.body)
	}
	return state
}

func retry(name, state, more string) string {
	return fmt.Sprintf(`{"name":%q,"requestState":%q,"inputResponses":{"who":{"action":"accept","content":{"name":"x"}}}%s}`, name, state, more)
}

func TestQuestionsAndAnswersPassAndTheStateIsSealed(t *testing.T) {
	for _, own := range []string{"", `"plain"`, `"\u0041 <b> \/"`} {
		p := asker(t, own)
		s := serve(t, team("a", "", "", p))
		call := s.capable("", `{"elicitation":{}}`)
		first := call("prompts/get", `{"name":"up.ask"}`)
		first.is(t, 200, `"resultType":"input_required"`, `"inputRequests":`+question, `"x":2.50`)
		if strings.Contains(first.body, "plain") {
			t.Errorf("the upstream's state goes out as it is: %s", first.body)
		}
		call("prompts/get", retry("up.ask", first.state(t), "")).is(t, 200, `"resultType":"complete"`, `"messages":[]`)
		gets := p.heard("prompts/get")
		var params struct {
			RequestState, InputResponses json.RawMessage
			Meta                         map[string]json.RawMessage `json:"_meta"`
		}
		if err := json.Unmarshal(gets[len(gets)-1].Params, &params); err != nil {
			t.Fatal(err)
		}
		if string(params.RequestState) != own {
			t.Errorf("the upstream gets back %s, want %s", params.RequestState, own)
		}
		if got := string(params.Meta["io.modelcontextprotocol/clientCapabilities"]); got != `{"elicitation":{}}` {
			t.Errorf("the upstream hears of the capabilities %s", got)
		}
	}
}

func TestAStateIsGoodForItsOwnRetryOnly(t *testing.T) {
	p := asker(t, `"plain"`)
	s := serve(t, "auth {\n"+token("ann")+token("bob")+"}\n"+team("a", `"user:ann", "user:bob"`, "", p))
	ann, bob := s.capable("ann", `{"elicitation":{}}`), s.capable("bob", `{"elicitation":{}}`)
	state := ann("prompts/get", `{"name":"up.ask","arguments":{"a":"1"}}`).state(t)
	asked := len(p.heard("prompts/get"))
	refused := func(what string, a answer) {
		t.Helper()
		if a.is(t, 200, `"code":-32602`, `"reason":"state"`); t.Failed() {
			t.Errorf("%s is not refused", what)
		}
	}
	arguments := `,"arguments":{"a":"1"}`
	refused("another caller", bob("prompts/get", retry("up.ask", state, arguments)))
	refused("another prompt", ann("prompts/get", retry("up.other", state, arguments)))
	refused("another argument", ann("prompts/get", retry("up.ask", state, `,"arguments":{"a":"2"}`)))
	refused("no argument", ann("prompts/get", retry("up.ask", state, "")))
	refused("a state of one's own", ann("prompts/get", retry("up.ask", "plain", arguments)))
	refused("a damaged state", ann("prompts/get", retry("up.ask", state[:len(state)-2]+"AA", arguments)))
	refused("answers without a state", ann("prompts/get", `{"name":"up.ask","inputResponses":{}}`))
	refused("a cursor", ann("prompts/get", retry("up.ask", s.capableCursor(t, ann), arguments)))
	if now := len(p.heard("prompts/get")); now != asked {
		t.Errorf("%d of these reached the upstream", now-asked)
	}
	ann("prompts/get", retry("up.ask", state, ` , "arguments" : { "a" : "\u0031" }`)).is(t, 200, `"resultType":"complete"`)
}

// capableCursor is a token of another purpose.
func (s *server) capableCursor(t *testing.T, call func(method, params string) answer) string {
	t.Helper()
	list := call("prompts/list", "{}")
	list.is(t, 200)
	session := send(t, http.MethodPost, s.url, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":`+initializeParams("2025-11-25")+`}`, bearer("ann"))
	return session.header.Get("Mcp-Session-Id")
}

func TestWhatAClientCannotAnswerIsNotAsked(t *testing.T) {
	questions := func(method, params string) string {
		return fmt.Sprintf(`{"resultType":"input_required","inputRequests":{"q":{"method":%q,"params":%s}}}`, method, params)
	}
	p := newModernPeer(t, "up", "ask")
	s := serve(t, team("a", "", "", p))
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
		got := s.capable("", test.declared)("prompts/get", `{"name":"up.ask"}`)
		if test.missing == "" {
			got.is(t, 200, `"resultType":"input_required"`)
			continue
		}
		got.is(t, 400, `"code":-32021`, `"requiredCapabilities":`+test.missing)
	}
	p.answer("prompts/get", questions("tools/call", "{}"))
	s.capable("", `{}`)("prompts/get", `{"name":"up.ask"}`).is(t, 200, `"code":-32603`, `"reason":"bad_response"`)
	p.answer("completion/complete", questions("roots/list", "{}"))
	s.capable("", `{"roots":{}}`)("completion/complete", complete("up.ask")).is(t, 200, `"code":-32603`)
	s.legacy("2025-11-25", "").call("prompts/get", get("up.ask")).is(t, 200, `"code":-32603`)
}
