package gateway_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// oldClient speaks HTTP+SSE with raw HTTP and JSON.
type oldClient struct {
	*stream
	endpoint string
	headers  headers
}

func (s *server) sseURL() string { return strings.TrimSuffix(s.url, "/mcp") + "/sse" }

// sse opens a session of HTTP+SSE.
func (s *server) sse(token string) *oldClient {
	s.t.Helper()
	at := *s
	at.url = s.sseURL()
	opening := &client{server: &at, t: s.t}
	c := &oldClient{headers: bearer(token)}
	c.stream = opening.openWith(http.MethodGet, "", append(headers{"Accept", "text/event-stream"}, c.headers...))
	first := c.next()
	base, err := url.Parse(at.url)
	if err != nil {
		s.t.Fatal(err)
	}
	endpoint, err := base.Parse(first.Data)
	if err != nil || first.Type != "endpoint" || first.LastEventID != "" {
		s.t.Fatalf("the first event is %+v", first)
	}
	c.endpoint = endpoint.String()
	return c
}

// initialized is sse with a session of a revision.
func (s *server) initialized(revision, token string) *oldClient {
	s.t.Helper()
	c := s.sse(token)
	c.request(`"init"`, "initialize", strings.Trim(initializeParams(revision), "{}")+"}")
	c.expect(`"id":"init"`, `"protocolVersion":"`+revision+`"`)
	c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.request(`"heard"`, "ping", "") // a post is accepted before it is taken; whoever has this answer hears of changes
	c.expect(`"id":"heard"`)
	return c
}

// post sends a body, which must be accepted.
func (c *oldClient) post(body string) {
	c.t.Helper()
	if a := send(c.t, http.MethodPost, c.endpoint, body, append(headers{"Accept", "*/*"}, c.headers...)); a.status != http.StatusAccepted || a.body != "" {
		c.t.Fatalf("status %d, body %q, want 202 and none", a.status, a.body)
	}
}

func (c *oldClient) request(id, method, params string) {
	c.t.Helper()
	c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, params))
}

// expect waits for a message with all of the parts in it.
func (c *oldClient) expect(parts ...string) string {
	c.t.Helper()
	event := c.next()
	if event.Type != "message" {
		c.t.Fatalf("got the event %+v, want a message", event)
	}
	for _, part := range parts {
		if !strings.Contains(event.Data, part) {
			c.t.Fatalf("got %s, want %s in it", event.Data, part)
		}
	}
	return event.Data
}

func TestSSEOfEachLegacyRevision(t *testing.T) {
	p := newPeer(t, "p", "a")
	s := serve(t, team("eng", "", "", p))
	for _, revision := range legacyRevisions {
		c := s.sse("")
		for name, want := range map[string]string{"Cache-Control": "no-cache", "X-Accel-Buffering": "no", "Mcp-Session-Id": ""} {
			if got := c.header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		c.request(`0`, "prompts/list", ``)
		c.expect(`"id":0`, `"code":-32600`, `"Begin with initialize"`)
		c.request(`0`, "server/discover", meta) // there is no modern era here
		c.expect(`"id":0`, `"code":-32600`)
		c.request(`0`, "ping", ``)
		c.expect(`{"jsonrpc":"2.0","id":0,"result":{}}`)
		c.request(`"i"`, "initialize", ``)
		c.expect(`"id":"i"`, `"code":-32602`)
		c.request(`"i"`, "initialize", `"protocolVersion":"`+revision+`"`)
		conform(t, revision, "initialize", c.expect(`"id":"i"`, `"protocolVersion":"`+revision+`"`))
		c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		c.request(`-1`, "prompts/list", meta)
		conform(t, revision, "prompts/list", c.expect(`"id":-1`, `"name":"p.a"`))
		c.request(`9007199254740993`, "prompts/get", `"name":"p.a"`)
		conform(t, revision, "prompts/get", c.expect(`"id":9007199254740993,`, "from p"))
		c.request(`2`, "tools/list", ``)
		c.expect(`{"tools":[]}`)
		c.request(`3`, "no/such", ``)
		c.expect(`"id":3`, `-32601`)
		c.post(`{"jsonrpc":"2.0","id":5,"result":{}}`) // an answer to nothing
		p.watched().offer("a", "b")
		if got := c.expect(); got != `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}` {
			t.Errorf("got %s", got)
		}
		c.request(`4`, "prompts/list", ``)
		c.expect(`"name":"p.b"`)
		c.silent()
		c.close()
		p.offer("a")
		eventually(t, "the list is as before", func() bool { return len(s.modern("").list()) == 1 })
	}
}

func TestSSESessionsAreTheirOpeners(t *testing.T) {
	s, billing, _ := twoTeams(t, "auth {\n"+token("ann", "payments")+token("bob")+"}")
	send(t, http.MethodGet, s.sseURL(), "", nil).is(t, http.StatusUnauthorized)
	ann, bob := s.initialized("2024-11-05", "ann"), s.initialized("2024-11-05", "bob")
	if ann.endpoint == bob.endpoint {
		t.Fatal("two sessions have one endpoint")
	}
	const list = `{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`
	post := func(token, endpoint string) answer { return send(t, http.MethodPost, endpoint, list, bearer(token)) }
	none := post("bob", s.sseURL()+"?sessionId=none")
	none.is(t, http.StatusNotFound, `"id":1`, `"code":-32600`)
	if stolen := post("bob", ann.endpoint); stolen.whole() != none.whole() {
		t.Errorf("another's session is answered %s, one that is not there %s", stolen.whole(), none.whole())
	}
	post("", ann.endpoint).is(t, http.StatusUnauthorized)
	post("nobody", ann.endpoint).is(t, http.StatusUnauthorized)
	post("ann", s.sseURL()).is(t, http.StatusNotFound)
	ann.post(list)
	ann.expect(`"billing.ledger"`)
	bob.post(list)
	if got := bob.expect(`"find.query"`); strings.Contains(got, "ledger") {
		t.Errorf("bob sees %s", got)
	}
	billing.watched().offer("review_pr", "wip_x", "debug_y", "new")
	ann.expect("list_changed")
	bob.post(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	bob.expect(`"id":2`) // and nothing of what it cannot see before
	ann.close()
	eventually(t, "the session has ended with its stream", func() bool { return post("ann", ann.endpoint).status == http.StatusNotFound })
}

func TestSSEIsReadStrictly(t *testing.T) {
	s := serve(t, ``)
	c := s.initialized("2024-11-05", "")
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for body, code := range map[string]string{
		``: "-32700", `{`: "-32700", ping + ping: "-32700", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`: "-32700",
		`{"jsonrpc":"1.0","id":1,"method":"ping"}`: "-32600", `[]`: "-32600",
	} {
		send(t, http.MethodPost, c.endpoint, body, nil).is(t, http.StatusBadRequest, `"code":`+code)
	}
	large := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + strings.Repeat("x", 4<<20) + `"}}`
	send(t, http.MethodPost, c.endpoint, large, nil).is(t, http.StatusRequestEntityTooLarge)
	send(t, http.MethodPost, c.endpoint, ping, headers{"Content-Type", "text/plain"}).is(t, http.StatusUnsupportedMediaType)
	send(t, http.MethodGet, s.sseURL(), "", headers{"Accept", "application/json"}).is(t, http.StatusNotAcceptable)
	a := send(t, http.MethodDelete, s.sseURL(), "", nil)
	a.is(t, http.StatusMethodNotAllowed)
	if got := a.header.Get("Allow"); got != "GET, POST" {
		t.Errorf("Allow: %q", got)
	}
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		for _, h := range []headers{{"Host", "evil.example.com"}, {"Origin", "http://evil.example.com"}} {
			send(t, method, c.endpoint, ping, h).is(t, http.StatusForbidden)
		}
	}
	c.post(ping)
	c.expect(`"result":{}`)
	c.post("[" + ping + "]") // 2024-11-05 has no batches
	c.expect(`"code":-32600`, "Batches")
}

func TestSSECancels(t *testing.T) {
	p := newPeer(t, "p", "a")
	p.settings = `timeout = "60s"`
	s := serve(t, team("eng", "", "", p))
	entered, gone := hold(p)
	c := s.initialized("2025-03-26", "")
	c.request(`"x"`, "prompts/get", `"name":"p.a"`)
	<-entered
	c.request(`"x"`, "prompts/list", ``)
	c.expect("in use")
	c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`)
	<-gone
	c.request(`1`, "ping", ``)
	c.expect(`"id":1`) // and nothing about x before
	// The end of the stream is the end of its requests.
	c.request(`2`, "prompts/get", `"name":"p.a"`)
	<-entered
	c.close()
	<-gone
}

func TestSSEAnswersWhatItHasBeforeItDrains(t *testing.T) {
	p := newPeer(t, "p", "a")
	s := serve(t, team("eng", "", "", p))
	c := s.initialized("2024-11-05", "")
	entered, release := make(chan struct{}), make(chan struct{})
	p.intercept(func(_ http.ResponseWriter, _ *http.Request, call heard) bool {
		if call.Method == "prompts/get" {
			entered <- struct{}{}
			<-release
		}
		return false
	})
	c.request(`1`, "prompts/get", `"name":"p.a"`)
	<-entered
	s.Drain()
	eventually(t, "nothing more is taken", func() bool {
		a := send(t, http.MethodPost, c.endpoint, `{"jsonrpc":"2.0","method":"notifications/x"}`, nil)
		return a.status == http.StatusNotFound
	})
	close(release)
	c.expect(`"id":1`, "from p")
	c.ended()
}
