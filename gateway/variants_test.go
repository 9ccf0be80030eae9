package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

const bothVariants = `gateway { variants = ["flat", "tools"] }` + "\n"

func TestTools_AreNowhereElse(t *testing.T) {
	s := gatewaytest.Serve(t, bothVariants+gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "p", "a")))
	for _, at := range []*gatewaytest.Server{s, s.At("flat")} {
		at.Modern("").Call("tools/list", "").Want(t, http.StatusNotFound, `"code":-32601`)
		at.Modern("").Call("tools/call", `{"name":"get_prompt"}`).Want(t, http.StatusNotFound, `"code":-32601`)
		at.Legacy("2025-11-25", "").Call("tools/list", "").Want(t, http.StatusOK, `"result":{"tools":[]}`)
		at.Legacy("2025-11-25", "").Call("tools/call", `{"name":"get_prompt"}`).Want(t, http.StatusOK, `"code":-32601`)
		if a := at.Modern("").Call("server/discover", ""); strings.Contains(a.Body, `"tools"`) {
			t.Errorf("tools are declared: %s", a.Body)
		}
	}
	s.At("tools").Modern("").Call("server/discover", "").Want(t, http.StatusOK, `"tools":{}`)
	s.At("tools").Modern("").WantList("p.a") // beside the prompts
}

// A tool's call asks for input as a get does, in either era, and its state holds at its variant only.
func TestTools_AskForInput(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation)
	s := gatewaytest.Serve(t, bothVariants+gatewaytest.Team("a", "", "", p.Peer))
	call := s.At("tools").ModernWith("", `{"elicitation":{}}`)
	const get = `{"name":"get_prompt","arguments":{"name":"up.ask"}}`
	asked := call("tools/call", get)
	asked.Want(t, http.StatusOK, `"resultType":"input_required"`, `"method":"elicitation/create"`)
	gatewaytest.CheckSchema(t, gatewaytest.Latest, "tools/call", asked.Body)
	replies := fmt.Sprintf(`{"requestState":%q,"inputResponses":%s,"name":`, asked.RequestState(t), asked.InputResponses(t, `{"action":"accept","content":{"name":"A"}}`))
	for _, variant := range []string{"", "/flat"} {
		other := *s
		other.URL += variant
		other.ModernWith("", `{"elicitation":{}}`)("prompts/get", replies+`"up.ask"}`).Want(t, http.StatusOK, `"code":-32602`, `"reason":"state"`)
	}
	last := call("tools/call", replies+get[len(`{"name":`):])
	last.Want(t, http.StatusOK, `"resultType":"complete"`, `"content":[{"type":"text","text":"`)
	gatewaytest.CheckSchema(t, gatewaytest.Latest, "tools/call", last.Body)
	call("tools/call", replies+get[len(`{"name":`):]).Want(t, http.StatusOK, `"code":-32602`, `"reason":"state"`)

	c := s.At("tools").LegacyWith("2025-11-25", "", `{"elicitation":{}}`)
	body, h := c.Encode("5", "tools/call", get)
	stream := c.OpenStream(http.MethodPost, body, h)
	c.Reply(stream.WantElicitation("2025-11-25"), `{"action":"accept","content":{"name":"B"}}`)
	if event := stream.Next(); !strings.Contains(event.Data, `"content":[{"type":"text","text":"`) {
		t.Errorf("%s", event.Data)
	}
	modern := gatewaytest.Serve(t, bothVariants+gatewaytest.Team("a", "", "", gatewaytest.NewInputRequiredPeer(t, `"s"`)))
	modern.At("tools").Modern("").Call("tools/call", get).Want(t, http.StatusBadRequest, `"code":-32021`)
}
