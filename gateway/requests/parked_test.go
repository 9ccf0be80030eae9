package requests_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestParked_ModernClientRepliesToALegacyServer(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation, gatewaytest.RootsRequest)
	s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", p.Peer))
	call := s.ModernWith("", `{"elicitation":{},"roots":{"listChanged":true}}`)
	first := call("prompts/get", gatewaytest.GetParams("up.ask"))
	first.Want(t, 200, `"resultType":"input_required"`, `"method":"elicitation/create"`, `"x":2.50`)
	gatewaytest.CheckSchema(t, gatewaytest.Latest, "prompts/get", first.Body)
	again := call("prompts/get", resumed(first.RequestState(t), `{}`)) // the request without a response is made again
	again.Want(t, 200, `"resultType":"input_required"`, `"method":"elicitation/create"`)
	second := call("prompts/get", resumed(again.RequestState(t), again.InputResponses(t, `{"action":"accept","content":{"name":"\u0041"}}`)))
	second.Want(t, 200, `"resultType":"input_required"`, `"method":"roots/list"`)
	last := call("prompts/get", resumed(second.RequestState(t), second.InputResponses(t, `{"roots":[]}`)))
	last.Want(t, 200, `"resultType":"complete"`, `\\u0041`, `roots`)
	gatewaytest.CheckSchema(t, gatewaytest.Latest, "prompts/get", last.Body)
	upstreamtest.Equal(t, 1, len(p.Calls("prompts/get")), "gets at the server")
	for _, initialize := range p.Calls("initialize")[1:] {
		if !strings.Contains(string(initialize.Params), `"capabilities":{"elicitation":{},"roots":{}}`) {
			t.Errorf("the server receives %s, want the client's capabilities", initialize.Params)
		}
	}
}

func TestParked_ResumesForItsOwnCallerOnly(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation)
	text := "gateway { cursor_keys = [\"%KEY%\"] }\nauth {\n" + gatewaytest.Token("ann") + gatewaytest.Token("bob") + "}\n" + gatewaytest.Team("a", `"user:ann", "user:bob"`, "", p.Peer)
	s, elsewhere := gatewaytest.Serve(t, text), gatewaytest.Serve(t, text)
	ann, bob := s.ModernWith("ann", `{"elicitation":{}}`), s.ModernWith("bob", `{"elicitation":{}}`)
	refused := func(what string, a gatewaytest.Response) {
		t.Helper()
		if a.Want(t, 200, `"code":-32602`, `"reason":"state"`, "repeat the get"); t.Failed() {
			t.Errorf("%s is not refused", what)
		}
	}
	asked := ann("prompts/get", gatewaytest.GetParams("up.ask"))
	state, responses := asked.RequestState(t), asked.InputResponses(t, `{"action":"accept","content":{"name":"ann"}}`)
	refused("another caller", bob("prompts/get", resumed(state, responses)))
	refused("another replica", elsewhere.ModernWith("ann", `{"elicitation":{}}`)("prompts/get", resumed(state, responses)))
	refused("a damaged state", ann("prompts/get", resumed(state[:len(state)-3]+"AAA", responses)))
	refused("other arguments", ann("prompts/get", strings.Replace(resumed(state, responses), `{"name"`, `{"arguments":{"a":"b"},"name"`, 1)))
	ann("prompts/get", resumed(state, `{"1":"text"}`)).Want(t, 200, `"code":-32602`)
	ann("prompts/get", resumed(state, responses)).Want(t, 200, `"resultType":"complete"`, `ann`)
	refused("a second time", ann("prompts/get", resumed(state, responses)))
}

// Over a connection without a tag for server requests, a principal's calls take turns. A principal
// who does not reply keeps only its own next calls waiting.
func TestParked_BlocksOnlyItsOwnPrincipal(t *testing.T) {
	text := requestingUpstream(t, "stdio-legacy", "timeout = \"5s\"")
	s := gatewaytest.Serve(t, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+gatewaytest.Team("a", `"user:ann", "user:bob"`, text))
	ann, bob := s.ModernWith("ann", `{"elicitation":{}}`), s.ModernWith("bob", `{"elicitation":{}}`)
	const elicit = `{"name":"stdio-legacy.elicit","arguments":{"who":"x"}}`
	for i := range 3 {
		a := ann("prompts/get", elicit)
		if asked := strings.Contains(a.Body, `"input_required"`); asked != (i < 2) {
			t.Errorf("ann's get %d: %s", i, a.Body)
		}
	}
	bob("prompts/get", elicit).Want(t, 200, `"input_required"`)
}

func TestParked_EndsWithTheGateway(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation)
	s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", p.Peer))
	call := s.ModernWith("", `{"elicitation":{}}`)
	asked := call("prompts/get", gatewaytest.GetParams("up.ask"))
	s.Stop()
	call("prompts/get", resumed(asked.RequestState(t), asked.InputResponses(t, `{"action":"decline"}`))).Want(t, 200, `"error"`)
	upstreamtest.Eventually(t, "the server's get is cancelled", func() bool { return p.AbandonedGets() == 1 })
}

func TestParked_EndsWhenItsServerRequestIsScreened(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation)
	s := gatewaytest.Serve(t, gatewaytest.Team("a", "", `screen "short" { max_size = 150 }`, p.Peer)) // the server request alone would fit
	s.ModernWith("", `{"elicitation":{}}`)("prompts/get", gatewaytest.GetParams("up.ask")).Want(t, 200, `"reason":"screened"`, `"check":"size"`)
	upstreamtest.Eventually(t, "the server's get is cancelled", func() bool { return p.AbandonedGets() == 1 })
}

// A get that waits for its client keeps its message in memory, although its request is over, and
// what its server asks.
func TestParked_CountsWhatItKeeps(t *testing.T) {
	const large = 1<<20 - 2000
	for name, test := range map[string]struct {
		blanks, question string
		most             int // of 1 MiB each, in a quarter of max_buffered
	}{
		"message":        {strings.Repeat(" ", large), "Who?", 4},
		"server request": {"", strings.Repeat("x", large), 3}, // since the result has it, too
	} {
		t.Run(name, func(t *testing.T) {
			p := gatewaytest.NewRequestingPeer(t, strings.Replace(gatewaytest.FormElicitation, "Who?", test.question, 1))
			s := gatewaytest.Serve(t, "gateway { max_buffered = \"16777216\" }\nauth {\n"+gatewaytest.Token("ann")+"}\n"+
				gatewaytest.Team("a", `"user:ann"`, "", p.Peer))
			ann := s.ModernWith("ann", `{"elicitation":{}}`)
			get := strings.Replace(gatewaytest.GetParams("up.ask"), "{", "{"+test.blanks, 1)
			var asked gatewaytest.Response
			for range test.most {
				asked = ann("prompts/get", get)
				asked.Want(t, 200, `"input_required"`)
			}
			ann("prompts/get", get).Want(t, 200, `"reason":"overloaded"`)
			upstreamtest.Eventually(t, "the get that is refused is cancelled", func() bool { return p.AbandonedGets() == 1 })
			ann("prompts/get", resumed(asked.RequestState(t), asked.InputResponses(t, `{"action":"decline"}`))).Want(t, 200, `"complete"`)
			ann("prompts/get", get).Want(t, 200, `"input_required"`) // there is room again
		})
	}
}

func resumed(state, responses string) string {
	return fmt.Sprintf(`{"name":"up.ask","requestState":%q,"inputResponses":%s}`, state, responses)
}
