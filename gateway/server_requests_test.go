package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestReply_CountsOnceAndFromItsSessionOnly(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation)
	s := gatewaytest.Serve(t, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+gatewaytest.Team("a", `"user:ann", "user:bob"`, "", p.Peer))
	ann, bob := s.LegacyWith("2025-11-25", "ann", `{"elicitation":{}}`), s.LegacyWith("2025-11-25", "bob", `{"elicitation":{}}`)
	twin := s.LegacyWith("2025-11-25", "ann", `{"elicitation":{}}`)
	asked := ann.GetStream("7", gatewaytest.GetParams("up.ask"))
	id := asked.WantElicitation("2025-11-25")
	bob.Reply(id, `{"action":"accept","content":{"name":"bob"}}`)
	twin.Reply(id, `{"action":"accept","content":{"name":"twin"}}`)
	stolen := append(gatewaytest.Bearer("bob"), ann.Headers[2:]...)
	gatewaytest.Send(t, http.MethodPost, s.URL, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"cancel"}}`, id), stolen).Want(t, http.StatusNotFound)
	asked.WantSilence()
	ann.Reply(id, `{"action":"accept","content":{"name":"ann"}}`)
	ann.Reply(id, `{"action":"accept","content":{"name":"later"}}`)
	data := asked.Next().Data
	gatewaytest.CheckSchema(t, "2025-11-25", "prompts/get", data)
	if !strings.Contains(data, `"id":7`) || !strings.Contains(data, "ann") || strings.Contains(data, "later") {
		t.Errorf("got %s", data)
	}
	asked.WantEnd()
}

func TestReply_PassesTheClientsErrorToTheServer(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation)
	s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", p.Peer))
	c := s.LegacyWith("2025-06-18", "", `{"elicitation":{}}`)
	asked := c.GetStream("7", gatewaytest.GetParams("up.ask"))
	id := asked.WantElicitation("2025-06-18")
	gatewaytest.Send(t, http.MethodPost, c.URL, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"not now","data":2.50}}`, id), c.Headers).Want(t, http.StatusAccepted)
	if data := asked.Next().Data; !strings.Contains(data, `not now`) || !strings.Contains(data, `2.50`) {
		t.Errorf("got %s", data)
	}
}

func TestElicitation_ByURLIsRelayed(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.URLElicitation)
	s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", p.Peer))
	form := s.LegacyWith("2025-11-25", "", `{"elicitation":{}}`) // without elicitation by URL
	if refused := form.CallUnchecked("prompts/get", gatewaytest.GetParams("up.ask")); strings.Contains(refused.Body, "elicitation/c") {
		t.Errorf("got %s", refused.Body)
	} else {
		refused.Want(t, 200, `-32602`)
	}
	c := s.LegacyWith("2025-11-25", "", `{"elicitation":{"url":{}}}`)
	asked := c.GetStream("7", gatewaytest.GetParams("up.ask"))
	c.Reply(asked.WantElicitation("2025-11-25"), `{"action":"accept"}`)
	if data := asked.Next().Data; !strings.Contains(data, `"notifications/elicitation/complete","params":{"elicitationId":"e1"}`) {
		t.Errorf("got %s", data)
	}
	asked.Next()

	modern := gatewaytest.NewInputRequiredPeer(t, "")
	modern.OnGet(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		result := `{"resultType":"complete","messages":[]}`
		if !strings.Contains(string(call.Params), "inputResponses") {
			result = `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://example.com/"}}}}`
		}
		modern.Respond(w, call, result)
		return true
	})
	s = gatewaytest.Serve(t, gatewaytest.Team("a", "", "", modern))
	c = s.LegacyWith("2025-11-25", "", `{"elicitation":{"url":{}}}`)
	asked = c.GetStream("8", gatewaytest.GetParams("up.ask"))
	c.Reply(asked.WantElicitation("2025-11-25"), `{"action":"accept"}`) // the gateway adds the id that the schema requires
	if data := asked.Next().Data; !strings.Contains(data, `"messages":[]`) {
		t.Errorf("got %s", data)
	}
}

func TestServerRequests_EndWithTheirClient(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation)
	s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", p.Peer))
	given := 0
	gone := func(how string, answered bool) {
		t.Helper()
		if !answered {
			given++
		}
		upstreamtest.Eventually(t, how+": the get is cancelled", func() bool { return p.AbandonedGets() == given })
	}

	c := s.LegacyWith("2025-11-25", "", `{"elicitation":{}}`)
	asked := c.GetStream("7", gatewaytest.GetParams("up.ask"))
	id := asked.WantElicitation("2025-11-25")
	gatewaytest.Send(t, http.MethodPost, c.URL, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, c.Headers).Want(t, http.StatusAccepted)
	if data := asked.Next().Data; !strings.Contains(data, `"notifications/cancelled"`) || !strings.Contains(data, id) {
		t.Errorf("got %s, want the server request %s cancelled", data, id)
	}
	gone("cancel", false)

	asked = c.GetStream("8", gatewaytest.GetParams("up.ask"))
	asked.WantElicitation("2025-11-25")
	asked.Close()
	gone("the stream is closed", false)

	asked = c.GetStream("9", gatewaytest.GetParams("up.ask"))
	asked.WantElicitation("2025-11-25")
	gatewaytest.Send(t, http.MethodDelete, c.URL, "", c.Headers).Want(t, http.StatusNoContent)
	if data := asked.Next().Data; !strings.Contains(data, `"result"`) { // the server received an error as the reply
		t.Errorf("got %s", data)
	}

	pipes := s.Stdio("")
	pipes.Request(`1`, "initialize", `"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}}`)
	pipes.Next()
	pipes.Request(`2`, "prompts/get", `"name":"up.ask"`)
	pipes.WantMessage(`"elicitation/create"`)
	_ = pipes.In.Close()
	pipes.WantEnd()

	modern := s.ModernWith("", `{"elicitation":{}}`)
	modern("prompts/get", gatewaytest.GetParams("up.ask")).Want(t, 200, "input_required") // and the client never comes back
}

func TestGet_RespondsWithPlainJSONWithoutServerRequests(t *testing.T) {
	s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", gatewaytest.NewPeer(t, "up", "ask")))
	a := s.LegacyWith("2025-11-25", "", `{"roots":{},"elicitation":{}}`).Call("prompts/get", gatewaytest.GetParams("up.ask"))
	if a.Want(t, 200, `"messages"`); a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("content type %s, want application/json", a.Header.Get("Content-Type"))
	}
}

func TestServerRequests_AreRefusedInBatches(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation)
	s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", p.Peer))
	c := s.LegacyWith("2025-03-26", "", `{"roots":{},"elicitation":{}}`)
	a := gatewaytest.Send(t, http.MethodPost, c.URL, `[{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"up.ask"}},{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"loud"}}]`, c.Headers)
	a.Want(t, 200, `-32601`, `-32602`)
}

func TestLogLevel_AcceptsTheLevelsOfTheProtocol(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", p))
	for _, revision := range gatewaytest.LegacyRevisions {
		c := s.Legacy(revision, "")
		c.Call("logging/setLevel", `{"level":"notice"}`).Want(t, 200, `"result":{}`)
		c.CallUnchecked("logging/setLevel", `{"level":"loud"}`).Want(t, 200, `"code":-32602`)
	}
	modern := s.Modern("")
	level := func(level string) string {
		return `{"name":"p.a",` + strings.Replace(gatewaytest.Meta, `"_meta":{`, `"_meta":{"io.modelcontextprotocol/logLevel":`+level+`,`, 1) + `}`
	}
	modern.CallUnchecked("prompts/get", level(`"debug"`)).Want(t, 200, `"messages"`)
	modern.CallUnchecked("prompts/get", level(`"loud"`)).Want(t, 400, `"code":-32602`)
	modern.CallUnchecked("prompts/get", level(`7`)).Want(t, 400, `"code":-32602`)
}

func TestServerRequests_CanBeCancelledByTheServer(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", "ask")
	arrived := make(chan struct{}, 3)
	p.OnGet(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, message := range []string{
			`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`,
			`{"jsonrpc":"2.0","id":` + string(call.ID) + `,"result":{"messages":[]}}`,
		} {
			fmt.Fprintf(w, "data: %s\n\n", message)
			_ = http.NewResponseController(w).Flush() // an error fails the test
			<-arrived                                 // or the cancellation overtakes the server request
		}
		return true
	})
	s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", p))
	c := s.LegacyWith("2025-11-25", "", `{"roots":{}}`)
	asked := c.GetStream("7", gatewaytest.GetParams("up.ask"))
	for _, want := range []string{`"method":"roots/list"`, `"method":"notifications/cancelled"`, `"messages":[]`} {
		data := asked.Next().Data
		if gatewaytest.CheckSchema(t, "2025-11-25", "prompts/get", data); !strings.Contains(data, want) {
			t.Errorf("got %s, want %s in it", data, want)
		}
		arrived <- struct{}{}
	}
	for _, answer := range p.Calls("") {
		t.Errorf("the server received the reply %s%s, want none", answer.Result, answer.Error)
	}
}
