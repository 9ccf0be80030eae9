package gateway_test

import (
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

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
	refused("another caller", bob("prompts/get", resuming(state, responses)))
	refused("another replica", elsewhere.ModernWith("ann", `{"elicitation":{}}`)("prompts/get", resuming(state, responses)))
	refused("a damaged state", ann("prompts/get", resuming(gatewaytest.Damaged(state), responses)))
	refused("other arguments", ann("prompts/get", strings.Replace(resuming(state, responses), `{"name"`, `{"arguments":{"a":"b"},"name"`, 1)))
	ann("prompts/get", resuming(state, `{"1":"text"}`)).Want(t, 200, `"code":-32602`)
	ann("prompts/get", resuming(state, responses)).Want(t, 200, `"resultType":"complete"`, `ann`)
	refused("a second time", ann("prompts/get", resuming(state, responses)))
}

// Over a connection without a tag for server requests, a principal's calls take turns. A principal
// who does not reply keeps only its own next calls waiting.
func TestParked_BlocksOnlyItsOwnPrincipal(t *testing.T) {
	t.Parallel()
	text := requestingUpstream(t, "stdio-legacy", "timeout = \"5s\"")
	s := gatewaytest.Serve(t, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+gatewaytest.Team("a", `"user:ann", "user:bob"`, text))
	ann, bob := s.ModernWith("ann", `{"elicitation":{}}`), s.ModernWith("bob", `{"elicitation":{}}`)
	const elicit = `{"name":"stdio-legacy.elicit","arguments":{"who":"x"}}`
	for i := range 3 {
		a := ann("prompts/get", elicit)
		upstreamtest.Equal(t, i < 2, strings.Contains(a.Body, `"input_required"`), "ann's get %d is input_required: %s", i, a.Body)
	}
	bob("prompts/get", elicit).Want(t, 200, `"input_required"`)
}

func TestParked_EndsWithTheGateway(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation)
	s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", p.Peer))
	call := s.ModernWith("", `{"elicitation":{}}`)
	asked := call("prompts/get", gatewaytest.GetParams("up.ask"))
	s.Stop()
	call("prompts/get", resuming(asked.RequestState(t), asked.InputResponses(t, `{"action":"decline"}`))).Want(t, 200, `"error"`)
	upstreamtest.Eventually(t, "the server's get is cancelled", func() bool { return p.AbandonedGets() == 1 })
}

func TestParked_EndsWhenItsServerRequestIsScreened(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation)
	s := gatewaytest.Serve(t, gatewaytest.Team("a", "", `screen "short" { max_size = 150 }`, p.Peer)) // the server request alone would fit
	s.ModernWith("", `{"elicitation":{}}`)("prompts/get", gatewaytest.GetParams("up.ask")).Want(t, 200, `"reason":"screened"`, `"check":"size"`)
	upstreamtest.Eventually(t, "the server's get is cancelled", func() bool { return p.AbandonedGets() == 1 })
}

// A get that waits for its client keeps its message in memory, although its request is over.
func TestParked_CountsWhatItKeeps(t *testing.T) {
	const most = 4 // of 1 MiB each, in a quarter of max_buffered
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation)
	s := gatewaytest.Serve(t, "gateway { max_buffered = \"16777216\" }\nauth {\n"+gatewaytest.Token("ann")+"}\n"+
		gatewaytest.Team("a", `"user:ann"`, "", p.Peer))
	ann := s.ModernWith("ann", `{"elicitation":{}}`)
	get := strings.Replace(gatewaytest.GetParams("up.ask"), "{", "{"+strings.Repeat(" ", 1<<20-2000), 1)
	var asked gatewaytest.Response
	for range most {
		asked = ann("prompts/get", get)
		asked.Want(t, 200, `"input_required"`)
	}
	ann("prompts/get", get).Want(t, 200, `"reason":"overloaded"`)
	upstreamtest.Eventually(t, "the get that is refused is cancelled", func() bool { return p.AbandonedGets() == 1 })
	ann("prompts/get", resuming(asked.RequestState(t), asked.InputResponses(t, `{"action":"decline"}`))).Want(t, 200, `"complete"`)
	ann("prompts/get", get).Want(t, 200, `"input_required"`) // there is room again
}
