package transport_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
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

func TestVariants_AreTurnedOnEach(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, `gateway { variants = ["flat"] }`+"\n"+gatewaytest.Team("eng", "", "", p))
	s.At("flat").Modern("").WantList("p.a")
	s.At("flat/").Modern("").WantList("p.a")
	for _, path := range []string{"tools", "tools/", "flat/flat", "Flat", "flat/sse", "nothing"} {
		s.At(path).Modern("").CallUnchecked("prompts/list", "").Want(t, http.StatusNotFound)
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
