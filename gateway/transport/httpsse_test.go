package transport_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestSSE_HasNoModernEra(t *testing.T) {
	c := gatewaytest.Serve(t, ``).SSE("")
	for name, want := range map[string]string{"Cache-Control": "no-cache", "X-Accel-Buffering": "no", "Mcp-Session-Id": ""} {
		upstreamtest.Equal(t, want, c.Header.Get(name), "%s", name)
	}
	c.Request(`0`, "server/discover", gatewaytest.Meta)
	c.WantMessage(`"id":0`, `"code":-32600`, `"Begin with initialize"`)
}

func TestSSE_CanBeTurnedOff(t *testing.T) {
	s := gatewaytest.ServeReloadable(t, ``, gateway.Options{})
	open := s.SSESession("2024-11-05", "")
	s.MustReload("gateway { sse = false }")
	upstreamtest.Eventually(t, "the open session has ended", func() bool {
		return gatewaytest.Send(t, http.MethodPost, open.Endpoint, "{}", nil).Status == http.StatusNotFound
	})
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		gatewaytest.Send(t, method, s.SSEURL(), "", nil).
			Want(t, http.StatusNotFound, `"code":-32600`, "HTTP+SSE is turned off: use Streamable HTTP at /mcp")
	}
	s.Legacy("2025-11-25", "").Call("prompts/list", "").Want(t, http.StatusOK, `"prompts":[]`)
}

func TestSSE_SessionBelongsToItsPrincipal(t *testing.T) {
	s, billing, _ := gatewaytest.ServeTwoTeams(t, "auth {\n"+gatewaytest.Token("ann", "payments")+gatewaytest.Token("bob")+"}")
	gatewaytest.Send(t, http.MethodGet, s.SSEURL(), "", nil).Want(t, http.StatusUnauthorized)
	ann, bob := s.SSESession("2024-11-05", "ann"), s.SSESession("2024-11-05", "bob")
	if ann.Endpoint == bob.Endpoint {
		t.Fatal("two sessions have the same endpoint")
	}
	const list = `{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`
	post := func(token, endpoint string) gatewaytest.Response {
		return gatewaytest.Send(t, http.MethodPost, endpoint, list, gatewaytest.Bearer(token))
	}
	none := post("bob", s.SSEURL()+"?sessionId=none")
	none.Want(t, http.StatusNotFound, `"id":1`, `"code":-32600`)
	if stolen := post("bob", ann.Endpoint); stolen.Dump() != none.Dump() {
		t.Errorf("another principal's session: got %s, want the same as for a session that does not exist: %s", stolen.Dump(), none.Dump())
	}
	post("", ann.Endpoint).Want(t, http.StatusUnauthorized)
	post("nobody", ann.Endpoint).Want(t, http.StatusUnauthorized)
	post("ann", s.SSEURL()).Want(t, http.StatusNotFound)
	ann.Send(list)
	ann.WantMessage(`"billing.ledger"`)
	bob.Send(list)
	if got := bob.WantMessage(`"find.query"`); strings.Contains(got, "ledger") {
		t.Errorf("bob sees a prompt of payments: %s", got)
	}
	billing.AwaitStream().Offer("review_pr", "wip_x", "debug_y", "new")
	ann.WantMessage("list_changed")
	bob.Send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	bob.WantMessage(`"id":2`) // and before it no change that bob does not see
	ann.Close()
	upstreamtest.Eventually(t, "the session has ended with its stream", func() bool { return post("ann", ann.Endpoint).Status == http.StatusNotFound })
}

func TestSSE_ReadsMessagesStrictly(t *testing.T) {
	s := gatewaytest.Serve(t, ``)
	c := s.SSESession("2024-11-05", "")
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	gatewaytest.Send(t, http.MethodPost, c.Endpoint, `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, nil).Want(t, http.StatusBadRequest, `"code":-32700`)
	large := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + strings.Repeat("x", 4<<20) + `"}}`
	gatewaytest.Send(t, http.MethodPost, c.Endpoint, large, nil).Want(t, http.StatusRequestEntityTooLarge)
	gatewaytest.Send(t, http.MethodPost, c.Endpoint, ping, gatewaytest.Headers{"Content-Type", "text/plain"}).Want(t, http.StatusUnsupportedMediaType)
	gatewaytest.Send(t, http.MethodGet, s.SSEURL(), "", gatewaytest.Headers{"Accept", "application/json"}).Want(t, http.StatusNotAcceptable)
	a := gatewaytest.Send(t, http.MethodDelete, s.SSEURL(), "", nil)
	a.Want(t, http.StatusMethodNotAllowed)
	upstreamtest.Equal(t, "GET, POST", a.Header.Get("Allow"), "Allow")
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		for _, h := range []gatewaytest.Headers{{"Host", "evil.example.com"}, {"Origin", "http://evil.example.com"}} {
			gatewaytest.Send(t, method, c.Endpoint, ping, h).Want(t, http.StatusForbidden)
		}
	}
	c.Send(ping)
	c.WantMessage(`"result":{}`)
	c.Send("[" + ping + "]") // 2024-11-05 has no batches
	c.WantMessage(`"code":-32600`, "Batches")
}

func TestSSE_DrainCompletesRequestsInFlight(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	c := s.SSESession("2024-11-05", "")
	entered, release := p.PauseGets()
	c.Request(`1`, "prompts/get", `"name":"p.a"`)
	<-entered
	s.Drain()
	upstreamtest.Eventually(t, "no more messages are accepted", func() bool {
		a := gatewaytest.Send(t, http.MethodPost, c.Endpoint, `{"jsonrpc":"2.0","method":"notifications/x"}`, nil)
		return a.Status == http.StatusNotFound
	})
	release()
	c.WantMessage(`"id":1`, "from p")
	c.WantEnd()
}
