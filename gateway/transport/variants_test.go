package transport_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/identity/identitytest"
)

const bothVariants = `gateway { variants = ["flat", "tools"] }` + "\n"

// A session of one variant is unknown at another.
func TestVariants_HaveTheirOwnSessions(t *testing.T) {
	s := gatewaytest.Serve(t, bothVariants+gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "p", "a")))
	at := map[string]*gatewaytest.Server{"": s, "flat": s.At("flat"), "tools": s.At("tools")}
	for from, server := range at {
		c := server.Legacy("2025-03-26", "")
		for to, other := range at {
			there := *c
			there.Server = other
			status := http.StatusNotFound
			if from == to {
				status = http.StatusOK
			}
			there.Call("ping", "").Want(t, status)
			if from != to {
				gatewaytest.Send(t, http.MethodDelete, other.URL, "", c.Headers).Want(t, http.StatusNotFound)
				gatewaytest.Send(t, http.MethodGet, other.URL, "", c.Headers).Want(t, http.StatusNotFound)
				gatewaytest.Send(t, http.MethodPost, other.URL, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, c.Headers).Want(t, http.StatusNotFound)
			}
		}
		c.Call("ping", "").Want(t, http.StatusOK) // nobody has ended it
	}
}

// The resource is the endpoint itself, whose tokens hold at its variants.
func TestVariants_NameTheMetadataOfTheEndpoint(t *testing.T) {
	idp := identitytest.Serve(t)
	s := gatewaytest.Serve(t, bothVariants+"auth {\n"+jwtBlock(idp)+"}")
	for _, variant := range []string{"flat", "tools"} {
		a := gatewaytest.Send(t, http.MethodPost, s.URL+"/"+variant, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, nil)
		a.Want(t, http.StatusUnauthorized)
		if got := a.Header.Get("WWW-Authenticate"); !strings.Contains(got, "/.well-known/oauth-protected-resource/mcp\"") {
			t.Errorf("%s: %s", variant, got)
		}
		s.At(variant).Modern(idp.Token("ann")).Call("prompts/list", "").Want(t, http.StatusOK)
		page := gatewaytest.Send(t, http.MethodGet, s.URL+"/"+variant, "", gatewaytest.Headers{"Accept", "text/html"})
		page.Want(t, http.StatusOK, `<code id="endpoint">`+s.URL+`</code>`)
	}
}

func TestVariants_AreTurnedOnEach(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, `gateway { variants = ["flat"] }`+"\n"+gatewaytest.Team("eng", "", "", p))
	s.At("flat").Modern("").WantList("p.a")
	s.At("flat/").Modern("").WantList("p.a")
	for _, path := range []string{"tools", "tools/", "flat/flat", "Flat", "flat/sse", "nothing"} {
		s.At(path).Modern("").CallUnchecked("prompts/list", "").Want(t, http.StatusNotFound)
	}
}

// Streams tell of changes at each variant.
func TestVariants_TellOfChanges(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, bothVariants+gatewaytest.Team("eng", "", "", p))
	var streams []*gatewaytest.Stream
	for _, variant := range []string{"flat", "tools"} {
		for _, stream := range s.At(variant).ListenAll("") {
			streams = append(streams, stream)
		}
	}
	p.AwaitStream().Offer("a", "b")
	for _, stream := range streams {
		stream.WantChange()
	}
}

// A reload that turns a variant off ends its streams, and those of no other one.
func TestVariants_EndTheirStreamsWhereTheyAreTurnedOff(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	team := gatewaytest.Team("eng", "", "", p)
	s := gatewaytest.ServeReloadable(t, bothVariants+team, gateway.Options{})
	modern, legacy := s.At("tools").Modern("").Listen("1"), s.At("tools").Legacy("2025-03-26", "").Listen("")
	rest := s.At("flat").ListenAll("")
	maps.Copy(rest, s.ListenAll(""))
	s.MustReload(`gateway { variants = ["flat"] }` + "\n" + team)
	if last := modern.Next(); !strings.Contains(last.Data, `"resultType":"complete"`) {
		t.Errorf("the last event is %s, want the result of subscriptions/listen", last.Data)
	}
	modern.WantEnd()
	legacy.WantEnd()
	p.AwaitStream().Offer("a", "b")
	for _, stream := range rest {
		stream.WantChange()
	}
}

// The headers mirror the tool that is called, not the get that it becomes.
func TestVariants_CheckTheHeadersOfATool(t *testing.T) {
	s := gatewaytest.Serve(t, bothVariants+gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "p", "a"))).At("tools")
	call := func(h ...string) gatewaytest.Response {
		return s.Modern("").CallWithID("1", "tools/call", `{"name":"get_prompt","arguments":{"name":"p.a"}}`, h...)
	}
	call().Want(t, http.StatusOK, "from p")
	for _, h := range [][]string{{"Mcp-Name", "-"}, {"Mcp-Name", "p.a"}, {"Mcp-Method", "prompts/get"}, {"Mcp-Method", "-"}} {
		call(h...).Want(t, http.StatusBadRequest, `"code":-32020`)
	}
	call("Mcp-Name", "=?base64?Z2V0X3Byb21wdA==?=").Want(t, http.StatusOK, "from p")
}

// Each message of a batch is answered in the form of the variant.
func TestVariants_AnswerBatches(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", `{"name":"a","arguments":[{"name":"x","required":true},{"name":"y"}]}`)
	s := gatewaytest.Serve(t, bothVariants+gatewaytest.Team("eng", "", "", p))
	const batch = `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_prompt","arguments":{"name":"p.a","arguments":{"x":"1"}}}},` +
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"},{"jsonrpc":"2.0","id":3,"method":"prompts/get","params":{"name":"p.a","arguments":{"input":"z"}}}]`
	tools := s.At("tools").Legacy("2025-03-26", "")
	gatewaytest.Send(t, http.MethodPost, tools.URL, batch, tools.Headers).Want(t, http.StatusOK, `"content":[{`, `"tools":[{`, `"Missing required argument: x"`)
	flat := s.At("flat").Legacy("2025-03-26", "")
	gatewaytest.Send(t, http.MethodPost, flat.URL, batch, flat.Headers).Want(t, http.StatusOK, `"code":-32601`, `"tools":[]`, `"id":3,"result":{"messages":[{"role":"user"`)
}

// A call of a tool relays progress, and is cancelled, as a get.
func TestVariants_RelayAndCancel(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, bothVariants+gatewaytest.Team("eng", "", "", p)).At("tools")
	entered, gone := p.HoldGets()
	c := s.Legacy("2025-11-25", "")
	done := make(chan gatewaytest.Response, 1)
	go func() { done <- c.CallWithID("7", "tools/call", `{"name":"get_prompt","arguments":{"name":"p.a"}}`) }()
	<-entered
	gatewaytest.Send(t, http.MethodPost, s.URL, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, c.Headers).Want(t, http.StatusAccepted)
	<-gone
	<-done
	p.OnGet(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(`data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(call.ID) + `,"progress":0.5}}` + "\n\n" +
			`data: {"jsonrpc":"2.0","id":` + string(call.ID) + `,"result":{"messages":[]}}` + "\n\n"))
		return true
	})
	body, h := c.Encode("8", "tools/call", `{"name":"get_prompt","arguments":{"name":"p.a"},"_meta":{"progressToken":"mine"}}`)
	stream := c.OpenStream(http.MethodPost, body, h)
	if event := stream.Next(); !strings.Contains(event.Data, `"progressToken":"mine"`) {
		t.Errorf("%s", event.Data)
	}
	if event := stream.Next(); !strings.Contains(event.Data, `"content":[`) {
		t.Errorf("%s", event.Data)
	}
}
