package transport_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestInitialize_NegotiatesARevision(t *testing.T) {
	s := gatewaytest.Serve(t, `gateway { instructions = "Ask." }`)
	agree := func(asked, want string) {
		t.Helper()
		c := &gatewaytest.Client{Server: s, TB: t, Revision: want}
		a := c.Call("initialize", gatewaytest.InitializeParams(asked))
		a.Want(t, http.StatusOK, `"protocolVersion":"`+want+`"`, `"prompts":{"listChanged":true}`, `"instructions":"Ask."`, `"serverInfo":{"name":"promptweir","version":"1.2.3"}`)
		upstreamtest.Equal(t, want != "2024-11-05", strings.Contains(a.Body, `"completions":{}`),
			"%s: completions are declared", want)
		if id := a.Header.Get("Mcp-Session-Id"); id == "" || len(id) > 1024 || strings.Contains(id, want) {
			t.Errorf("session token %q, want one of at most 1024 bytes that does not show the revision", id)
		}
	}
	for _, revision := range gatewaytest.LegacyRevisions {
		agree(revision, revision)
	}
	agree("2025-01-01", "2025-11-25")
	agree("2026-07-28", "2025-11-25")
	agree("2099-01-01", "2025-11-25")
	agree("", "2025-11-25")
	c := &gatewaytest.Client{Server: s, TB: t, Revision: "2025-11-25"}
	c.CallUnchecked("initialize", `{}`).Want(t, http.StatusOK, `"code":-32602`, "protocolVersion")
}

// A client may name any revision in the header of its first request, and asks in its params for the one that it wants.
func TestInitialize_IsLegacyWhateverItsHeaderNames(t *testing.T) {
	s := gatewaytest.Serve(t, ``)
	for _, revision := range []string{"2026-07-28", "2099-01-01", "latest"} {
		with := func(method, params string, h ...string) gatewaytest.Response {
			body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
			return gatewaytest.Send(t, http.MethodPost, s.URL, body, append(gatewaytest.Headers{"Mcp-Protocol-Version", revision}, h...))
		}
		begun := with("initialize", gatewaytest.InitializeParams("2025-06-18"))
		begun.Want(t, http.StatusOK, `"protocolVersion":"2025-06-18"`)
		session := gatewaytest.Headers{"Mcp-Session-Id", begun.Header.Get("Mcp-Session-Id")}
		switch a := with("ping", "[]", session...); revision {
		case "2026-07-28": // which is served, so that the request stands alone and lacks what it must have
			a.Want(t, http.StatusBadRequest, "-32602", "io.modelcontextprotocol/protocolVersion")
		default:
			a.Want(t, http.StatusBadRequest, "-32022", `"requested":"`+revision+`"`)
			gatewaytest.Send(t, http.MethodGet, s.URL, "", append(gatewaytest.Headers{"Mcp-Protocol-Version", revision}, session...)).
				Want(t, http.StatusBadRequest, "-32022")
		}
		gatewaytest.Send(t, http.MethodPost, s.URL, `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, session).Want(t, http.StatusOK, `"result":{}`)
	}
}

func TestSession_HoldsForItsPrincipalOnEachReplica(t *testing.T) {
	auth := "auth {\n" + gatewaytest.Token("ann") + gatewaytest.Token("bob") + "}\n"
	shared := `gateway { cursor_keys = ["%KEY%"] }` + "\n" + auth
	one, two, foreign := gatewaytest.Serve(t, shared), gatewaytest.Serve(t, shared), gatewaytest.Serve(t, auth)
	ann := one.Legacy("2025-06-18", "ann")
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	session := ann.Headers[3]
	with := func(s *gatewaytest.Server, token string, more ...string) gatewaytest.Response {
		return gatewaytest.Send(t, http.MethodPost, s.URL, ping, append(gatewaytest.Bearer(token), more...))
	}
	with(one, "ann", "Mcp-Session-Id", session).Want(t, http.StatusOK, `"result":{}`)
	with(two, "ann", "Mcp-Session-Id", session).Want(t, http.StatusOK, `"result":{}`)
	sealer, err := seal.New([][32]byte{[32]byte([]byte("ABCABCABCABCABCABCABCABCABCABCAB"))})
	if err != nil {
		t.Fatal(err)
	}
	expired, err := sealer.SealSession(seal.Session{Revision: "2025-06-18", Principal: "user:ann", Expires: time.Now().Add(-time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	for name, refused := range map[string]gatewaytest.Response{
		"expired":           with(one, "ann", "Mcp-Session-Id", expired),
		"another key":       with(foreign, "ann", "Mcp-Session-Id", session),
		"another principal": with(one, "bob", "Mcp-Session-Id", session),
		"garbage":           with(one, "ann", "Mcp-Session-Id", "garbage"),
		"another spelling":  with(one, "ann", "Mcp-Session-Id", session+"="),
		"too long":          with(one, "ann", "Mcp-Session-Id", strings.Repeat("A", 2000)),
	} {
		if refused.Status != http.StatusNotFound || strings.Contains(refused.Body, `"id"`) {
			t.Errorf("%s: status %d, %s, want 404 and no id", name, refused.Status, refused.Body)
		}
	}
	with(one, "ann").Want(t, http.StatusBadRequest, "Mcp-Session-Id is required")
	with(one, "ann", "Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-01-01").Want(t, http.StatusBadRequest, `"code":-32022`, `"requested":"2025-01-01"`)
	with(one, "ann", "Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-06-18").Want(t, http.StatusOK)
	with(one, "nobody", "Mcp-Session-Id", session).Want(t, http.StatusUnauthorized)

	end := func(token, session string) gatewaytest.Response {
		return gatewaytest.Send(t, http.MethodDelete, one.URL, "", append(gatewaytest.Bearer(token), "Mcp-Session-Id", session))
	}
	end("bob", session).Want(t, http.StatusNotFound)
	end("ann", "garbage").Want(t, http.StatusNotFound)
	end("ann", session).Want(t, http.StatusNoContent)
	end("ann", session).Want(t, http.StatusNotFound)
	with(one, "ann", "Mcp-Session-Id", session).Want(t, http.StatusNotFound)
	with(one, "ann", "Mcp-Session-Id", one.Legacy("2025-06-18", "ann").Headers[3]).Want(t, http.StatusOK)
}

// A client goes on at any replica, and is told there of a change that it has missed, and only then.
func TestStream_TellsAReturningClientWhetherItMissedAChange(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	replica := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	upstreamtest.Eventually(t, "both have a stream", func() bool { return p.Streams() == 2 })
	c := s.Legacy("2025-11-25", "")
	first := c.Listen("")
	upstreamtest.Equal(t, "no", first.Header.Get("X-Accel-Buffering"), "X-Accel-Buffering")
	prime := first.Next()
	if prime.LastEventID == "" || prime.Data != "" {
		t.Fatalf("the first event is %+v, want an id without data", prime)
	}
	p.Offer("a", "b")
	news := first.WantChange()
	upstreamtest.Eventually(t, "the other replica has the change", func() bool { return len(replica.Modern("").List()) == 2 })
	if news.LastEventID == prime.LastEventID || !strings.HasPrefix(news.LastEventID, strings.SplitAfter(prime.LastEventID, ".")[0]) {
		t.Errorf("event ids %q and %q, want different ones of the same stream", prime.LastEventID, news.LastEventID)
	}
	first.Close()

	// A session has one stream, so each of these streams needs a session of its own.
	var streams []*gatewaytest.Stream
	for _, at := range []*gatewaytest.Server{s, replica} {
		current := at.Legacy("2025-11-25", "").Listen("", "Last-Event-Id", news.LastEventID)
		old := at.Legacy("2025-11-25", "").Listen("", "Last-Event-Id", prime.LastEventID)
		made := at.Legacy("2025-06-18", "").Listen("", "Last-Event-Id", "made up")
		current.Next()
		// It is told by the first event: one with only an id would be what a client goes on from that loses its connection after it.
		if told := old.WantChange(); !strings.HasSuffix(told.LastEventID, news.LastEventID[strings.LastIndexByte(news.LastEventID, '.'):]) {
			t.Errorf("the change has the event id %q, want the view of %q", told.LastEventID, news.LastEventID)
		}
		made.WantChange()
		streams = append(streams, current, old, made)
	}
	// The next change is the first event, so there was none before it.
	p.Offer("a", "c")
	for _, stream := range streams {
		stream.WantChange()
		stream.WantSilence()
	}
	s.Drain()
	streams[0].WantEnd()
	streams[1].WantEnd()
}

func TestSession_HasOneStream(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	c, other := s.Legacy("2025-11-25", ""), s.Legacy("2025-11-25", "")
	first, bystander := c.Listen(""), other.Listen("")
	first.Next()
	bystander.Next()
	second := c.Listen("")
	second.Next()
	first.WantEnd()
	p.AwaitStream().Offer("a", "b")
	second.WantChange()
	bystander.WantChange()
	gatewaytest.Send(t, http.MethodDelete, s.URL, "", c.Headers).Want(t, http.StatusNoContent)
	second.WantEnd()
	p.Offer("a", "c")
	bystander.WantChange()
}

func TestStream_ReconnectingToAFreshReplicaIsNotAChange(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	text := `gateway { cursor_keys = ["%KEY%"] }` + "\n" + gatewaytest.Team("eng", "", "", p)
	c := gatewaytest.Serve(t, text).Legacy("2025-11-25", "")
	id := c.Listen("").Next().LastEventID
	c.Server = gatewaytest.Start(t, text)
	again := c.Listen("", "Last-Event-Id", id)
	if prime := again.Next(); prime.Data != "" {
		t.Fatalf("got %q", prime.Data)
	}
	p.AwaitStream()
	upstreamtest.Eventually(t, "the change is in the list", func() bool {
		p.Offer("a", "b")
		return len(c.List()) == 2
	})
	again.WantChange()
	again.WantSilence()
}

func TestHTTP_RefusesOtherMethods(t *testing.T) {
	s := gatewaytest.Serve(t, ``)
	c := s.Legacy("2025-06-18", "")
	gatewaytest.Send(t, http.MethodGet, s.URL, "", append(gatewaytest.Headers{"Accept", "application/json"}, c.Headers...)).Want(t, http.StatusNotAcceptable)
	gatewaytest.Send(t, http.MethodGet, s.URL, "", nil).Want(t, http.StatusBadRequest)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		a := gatewaytest.Send(t, method, s.URL, "", gatewaytest.Headers{"Mcp-Protocol-Version", gatewaytest.Latest})
		a.Want(t, http.StatusMethodNotAllowed)
		upstreamtest.Equal(t, "POST", a.Header.Get("Allow"), "Allow")
	}
	a := gatewaytest.Send(t, http.MethodPut, s.URL, "", nil)
	a.Want(t, http.StatusMethodNotAllowed)
	upstreamtest.Equal(t, "POST, GET, DELETE", a.Header.Get("Allow"), "Allow")
}
