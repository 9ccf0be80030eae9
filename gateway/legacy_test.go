package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/seal"
)

func TestInitializeSettlesOnARevision(t *testing.T) {
	s := serve(t, `gateway { instructions = "Ask." }`)
	agree := func(asked, want string) {
		t.Helper()
		c := &client{server: s, t: t, revision: want}
		a := c.call("initialize", initializeParams(asked))
		a.is(t, http.StatusOK, `"protocolVersion":"`+want+`"`, `"prompts":{"listChanged":true}`, `"instructions":"Ask."`, `"serverInfo":{"name":"promptweir","version":"1.2.3"}`)
		if has := strings.Contains(a.body, `"completions":{}`); has != (want != "2024-11-05") {
			t.Errorf("%s: completions declared: %v", want, has)
		}
		if id := a.header.Get("Mcp-Session-Id"); id == "" || len(id) > 1024 || strings.Contains(id, want) {
			t.Errorf("session id %q", id)
		}
	}
	for _, revision := range legacyRevisions {
		agree(revision, revision)
	}
	agree("2025-01-01", "2025-11-25")
	agree("2026-07-28", "2025-11-25")
	agree("2099-01-01", "2025-11-25")
	agree("", "2025-11-25")
	c := &client{server: s, t: t, revision: "2025-11-25"}
	c.callRaw("initialize", `{}`).is(t, http.StatusOK, `"code":-32602`, "protocolVersion")
}

func TestSessions(t *testing.T) {
	auth := "auth {\n" + token("ann") + token("bob") + "}\n"
	shared := `gateway { cursor_keys = ["%KEY%"] }` + "\n" + auth
	one, two, foreign := serve(t, shared), serve(t, shared), serve(t, auth)
	ann := one.legacy("2025-06-18", "ann")
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	session := ann.headers[3]
	with := func(s *server, token string, more ...string) answer {
		return send(t, http.MethodPost, s.url, ping, append(bearer(token), more...))
	}
	with(one, "ann", "Mcp-Session-Id", session).is(t, http.StatusOK, `"result":{}`)
	with(two, "ann", "Mcp-Session-Id", session).is(t, http.StatusOK, `"result":{}`)
	sealer, err := seal.New([][32]byte{[32]byte([]byte("ABCABCABCABCABCABCABCABCABCABCAB"))})
	if err != nil {
		t.Fatal(err)
	}
	expired, err := sealer.SealSession(seal.Session{Revision: "2025-06-18", Principal: "user:ann", Expires: time.Now().Add(-time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	for name, refused := range map[string]answer{
		"expired":           with(one, "ann", "Mcp-Session-Id", expired),
		"another key":       with(foreign, "ann", "Mcp-Session-Id", session),
		"another principal": with(one, "bob", "Mcp-Session-Id", session),
		"garbage":           with(one, "ann", "Mcp-Session-Id", "garbage"),
		"another spelling":  with(one, "ann", "Mcp-Session-Id", session+"="),
		"too long":          with(one, "ann", "Mcp-Session-Id", strings.Repeat("A", 2000)),
	} {
		if refused.status != http.StatusNotFound || strings.Contains(refused.body, `"id"`) {
			t.Errorf("%s: status %d: %s", name, refused.status, refused.body)
		}
	}
	with(one, "ann").is(t, http.StatusBadRequest, "Mcp-Session-Id is required")
	with(one, "ann", "Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-01-01").is(t, http.StatusBadRequest, `"code":-32022`, `"requested":"2025-01-01"`)
	with(one, "ann", "Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-06-18").is(t, http.StatusOK)
	with(one, "nobody", "Mcp-Session-Id", session).is(t, http.StatusUnauthorized)

	end := func(token, session string) answer {
		return send(t, http.MethodDelete, one.url, "", append(bearer(token), "Mcp-Session-Id", session))
	}
	end("bob", session).is(t, http.StatusNotFound)
	end("ann", "garbage").is(t, http.StatusNotFound)
	end("ann", session).is(t, http.StatusNoContent)
	end("ann", session).is(t, http.StatusNotFound)
	with(one, "ann", "Mcp-Session-Id", session).is(t, http.StatusNotFound)
	with(one, "ann", "Mcp-Session-Id", one.legacy("2025-06-18", "ann").headers[3]).is(t, http.StatusOK)
}

func TestLegacyMethods(t *testing.T) {
	s := serve(t, ``)
	for _, revision := range legacyRevisions {
		c := s.legacy(revision, "")
		c.call("ping", "").is(t, http.StatusOK, `"result":{}`)
		c.call("tools/list", "").is(t, http.StatusOK, `"result":{"tools":[]}`)
		c.call("resources/list", "").is(t, http.StatusOK, `"result":{"resources":[]}`)
		c.call("resources/templates/list", "").is(t, http.StatusOK, `"result":{"resourceTemplates":[]}`)
		for _, unknown := range []string{"tools/call", "server/discover", "subscriptions/listen", "no/such"} {
			c.call(unknown, "").is(t, http.StatusOK, `"code":-32601`, unknown)
		}
		for _, message := range []string{`{"jsonrpc":"2.0","method":"notifications/x"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`} {
			if a := send(t, http.MethodPost, c.url, message, c.headers); a.status != http.StatusAccepted || a.body != "" {
				t.Errorf("%s: status %d, body %q, want 202 and none", message, a.status, a.body)
			}
		}
	}
}

func TestLegacyStreamKnowsWhatAClientMissed(t *testing.T) {
	p := newPeer(t, "p", "a")
	s := serve(t, team("eng", "", "", p))
	c := s.legacy("2025-11-25", "")
	first := c.open("")
	if got := first.header.Get("X-Accel-Buffering"); got != "no" {
		t.Errorf("X-Accel-Buffering %q", got)
	}
	prime := first.next()
	if prime.LastEventID == "" || prime.Data != "" {
		t.Fatalf("got %+v first, want an id without data", prime)
	}
	p.watched().offer("a", "b")
	news := first.changed()
	if news.LastEventID == prime.LastEventID || !strings.HasPrefix(news.LastEventID, strings.SplitAfter(prime.LastEventID, ".")[0]) {
		t.Errorf("event ids %q and %q", prime.LastEventID, news.LastEventID)
	}
	first.close()

	// A session has one stream, so each of these has a session of its own.
	current := s.legacy("2025-11-25", "").open("", "Last-Event-Id", news.LastEventID)
	old := s.legacy("2025-11-25", "").open("", "Last-Event-Id", prime.LastEventID)
	made := s.legacy("2025-06-18", "").open("", "Last-Event-Id", "made up")
	current.next()
	old.next()
	if told := old.changed(); !strings.HasSuffix(told.LastEventID, news.LastEventID[strings.LastIndexByte(news.LastEventID, '.'):]) {
		t.Errorf("told with id %q, want the fingerprint of %q", told.LastEventID, news.LastEventID)
	}
	made.changed()
	// Silence is shown by the next change being the first thing said.
	p.offer("a", "c")
	for _, stream := range []*stream{current, old, made} {
		stream.changed()
		stream.silent()
	}
	// A gateway that has just begun sees the same view, and says nothing either.
	s.Drain()
	current.ended()
	old.ended()
}

func TestASessionHasOneStreamAndEndsWithIt(t *testing.T) {
	p := newPeer(t, "p", "a")
	s := serve(t, team("eng", "", "", p))
	c, other := s.legacy("2025-11-25", ""), s.legacy("2025-11-25", "")
	first, bystander := c.open(""), other.open("")
	first.next()
	bystander.next()
	second := c.open("")
	second.next()
	first.ended()
	p.watched().offer("a", "b")
	second.changed()
	bystander.changed()
	send(t, http.MethodDelete, s.url, "", c.headers).is(t, http.StatusNoContent)
	second.ended()
	p.offer("a", "c")
	bystander.changed()
}

func TestReturningToAFreshReplicaIsNoNews(t *testing.T) {
	p := newPeer(t, "p", "a")
	text := `gateway { cursor_keys = ["%KEY%"] }` + "\n" + team("eng", "", "", p)
	c := serve(t, text).legacy("2025-11-25", "")
	id := c.open("").next().LastEventID
	c.server = begin(t, text)
	again := c.open("", "Last-Event-Id", id)
	if prime := again.next(); prime.Data != "" {
		t.Fatalf("got %q", prime.Data)
	}
	p.watched()
	eventually(t, "the change arrives", func() bool {
		p.offer("a", "b")
		return len(c.list()) == 2
	})
	again.changed()
	again.silent()
}

func TestStreamsAreRefused(t *testing.T) {
	s := serve(t, ``)
	c := s.legacy("2025-06-18", "")
	send(t, http.MethodGet, s.url, "", append(headers{"Accept", "application/json"}, c.headers...)).is(t, http.StatusNotAcceptable)
	send(t, http.MethodGet, s.url, "", nil).is(t, http.StatusBadRequest)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		a := send(t, method, s.url, "", headers{"Mcp-Protocol-Version", latest})
		a.is(t, http.StatusMethodNotAllowed)
		if got := a.header.Get("Allow"); got != "POST" {
			t.Errorf("Allow: %q", got)
		}
	}
	a := send(t, http.MethodPut, s.url, "", nil)
	a.is(t, http.StatusMethodNotAllowed)
	if got := a.header.Get("Allow"); got != "POST, GET, DELETE" {
		t.Errorf("Allow: %q", got)
	}
}
