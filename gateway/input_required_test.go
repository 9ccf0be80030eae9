package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

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
	// The old connector may carry out the second call before it is closed.
	if data := asked.Next().Data; !strings.Contains(data, `"reason":"starting"`) && !strings.Contains(data, `"messages":[]`) {
		t.Errorf("got %s, want that the server is starting, or its result", data)
	}
}
