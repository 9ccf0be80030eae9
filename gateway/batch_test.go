package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// one is a request as it stands in a batch.
func one(id, method, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`
}

func batch(messages ...string) string { return "[" + strings.Join(messages, ", ") + "]" }

const (
	aNotification = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	aResponse     = `{"jsonrpc":"2.0","id":1,"result":{}}`
)

// holdsInOrder fails unless the answer is a batch whose responses hold the parts.
func holdsInOrder(t *testing.T, body string, parts ...string) {
	t.Helper()
	var responses []json.RawMessage
	if err := json.Unmarshal([]byte(body), &responses); err != nil || len(responses) != len(parts) {
		t.Fatalf("got %s, want a batch of %d", body, len(parts))
	}
	for i, part := range parts {
		if !strings.Contains(string(responses[i]), part) {
			t.Errorf("got %s, want %s in it", responses[i], part)
		}
		if strings.Contains(part, `"id":`) {
			conform(t, "2025-03-26", "", string(responses[i]))
		}
	}
}

func TestBatches(t *testing.T) {
	s := serve(t, team("eng", "", "", newPeer(t, "p", "a")))
	c := s.legacy("2025-03-26", "")
	c.headers = c.headers[:2] // the header with the revision came later
	answer := func(status int, messages ...string) string {
		t.Helper()
		a := send(t, http.MethodPost, c.url, batch(messages...), c.headers)
		a.is(t, status)
		return a.body
	}
	got := answer(http.StatusOK, one(`1`, "ping", ``), aNotification, one(`"b"`, "prompts/list", ``), aResponse,
		one(`3`, "prompts/get", `"name":"p.a"`), one(`4`, "prompts/get", `"name":"p.none"`), one(`5`, "tools/list", ``))
	holdsInOrder(t, got, `"id":1,"result":{}`, `"id":"b"`, `from p`, `"id":4,"error":{"code":-32602`, `{"tools":[]}`)
	got = answer(http.StatusOK, one(`1`, "initialize", `"protocolVersion":"2025-03-26"`), `{"jsonrpc":"1.0","id":2,"method":"ping"}`,
		`7`, `{}`, batch(one(`8`, "ping", ``)), one(`9`, "prompts/list", meta), one(`10`, "ping", ``))
	holdsInOrder(t, got, `"id":1,"error":{"code":-32600`, `"id":2,"error":{"code":-32600`, `"code":-32700`, `"code":-32600`, `"code":-32600`,
		`"id":9,"error":{"code":-32600`, `"id":10,"result":{}`)
	for _, silent := range [][]string{{aNotification}, {aResponse, aResponse}, {aNotification, aResponse}} {
		if got := answer(http.StatusAccepted, silent...); got != "" {
			t.Errorf("%s is answered %s", silent, got)
		}
	}
	full := make([]string, 101)
	for i := range full {
		full[i] = one(`1`, "ping", ``)
	}
	if got := answer(http.StatusOK, full[:100]...); strings.Count(got, `"result":{}`) != 100 {
		t.Errorf("got %s", got)
	}
	if got := answer(http.StatusBadRequest, full...); !strings.Contains(got, `"code":-32600`) || !strings.Contains(got, "at most 100") {
		t.Errorf("got %s", got)
	}
	for body, code := range map[string]string{`[]`: "-32600", `[{}`: "-32700", `[{"id":1,"id":1}]`: "-32700", `[{}] x`: "-32700"} {
		send(t, http.MethodPost, c.url, body, c.headers).is(t, http.StatusBadRequest, `"code":`+code)
	}
}

func TestBatchesAreOfOneRevisionAndSession(t *testing.T) {
	s := serve(t, "auth {\n"+token("ann")+token("bob")+"}")
	body := batch(one(`1`, "ping", ``))
	post := func(h headers) answer { return send(t, http.MethodPost, s.url, body, h) }
	for _, revision := range legacyRevisions {
		a := post(s.legacy(revision, "ann").headers)
		if revision == "2025-03-26" {
			a.is(t, http.StatusOK, `[{"jsonrpc":"2.0","id":1,"result":{}}]`)
			continue
		}
		a.is(t, http.StatusBadRequest, `"code":-32600`, "Batches")
	}
	post(append(headers{"Mcp-Protocol-Version", latest}, bearer("ann")...)).is(t, http.StatusBadRequest, `"code":-32600`, "Batches")
	post(bearer("ann")).is(t, http.StatusBadRequest, "Mcp-Session-Id")
	post(nil).is(t, http.StatusUnauthorized)
	session := s.legacy("2025-03-26", "ann").headers[2:4]
	post(append(bearer("bob"), session...)).is(t, http.StatusNotFound)
}

func TestRequestsOfABatchRunBesideEachOther(t *testing.T) {
	p := newPeer(t, "p", "a")
	p.settings = `timeout = "30s"`
	s := serve(t, team("eng", "", "", p))
	var now, most atomic.Int32
	release := make(chan struct{})
	p.intercept(func(_ http.ResponseWriter, _ *http.Request, call heard) bool {
		if call.Method == "prompts/get" {
			n := now.Add(1)
			defer now.Add(-1)
			for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
				continue
			}
			<-release
		}
		return false
	})
	gets := make([]string, 40)
	for i := range gets {
		gets[i] = one(`1`, "prompts/get", `"name":"p.a"`)
	}
	c := s.legacy("2025-03-26", "")
	answered := make(chan answer, 1)
	go func() { answered <- send(t, http.MethodPost, c.url, batch(gets...), c.headers) }()
	eventually(t, "eight are asked at once", func() bool { return now.Load() == 8 })
	close(release)
	a := <-answered
	if n := strings.Count(a.body, "from p"); n != 40 || most.Load() != 8 {
		t.Errorf("%d answers, %d at once, want 40 and no more than 8", n, most.Load())
	}
}

func TestRequestsOfABatchCanBeCancelled(t *testing.T) {
	p := newPeer(t, "p", "a")
	p.settings = `timeout = "60s"`
	s := serve(t, team("eng", "", "", p))
	entered, gone := hold(p)
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`
	both := batch(one(`"x"`, "prompts/get", `"name":"p.a"`), one(`2`, "ping", ``))

	c := s.legacy("2025-03-26", "")
	answered := make(chan answer, 1)
	go func() { answered <- send(t, http.MethodPost, c.url, both, c.headers) }()
	<-entered
	send(t, http.MethodPost, c.url, batch(cancel), c.headers).is(t, http.StatusAccepted)
	<-gone
	holdsInOrder(t, (<-answered).body, `"id":"x","error"`, `"id":2`)

	// Over one connection, who cancels gets no response.
	pipes := s.stdio("")
	pipes.request(`1`, "initialize", `"protocolVersion":"2025-03-26"`)
	pipes.expect(`"id":1`)
	pipes.send(both)
	<-entered
	pipes.send(cancel)
	<-gone
	holdsInOrder(t, pipes.next(), `"id":2`)
}

func TestBatchesOverOneConnection(t *testing.T) {
	s := serve(t, team("eng", "", "", newPeer(t, "p", "a")))
	ask := batch(one(`1`, "ping", ``), aNotification, one(`2`, "prompts/get", `"name":"p.a"`), one(`3`, "initialize", ``), `{"jsonrpc":"2.0"}`,
		one(`4`, "subscriptions/listen", meta), one(`5`, "no/such", ``))
	want := []string{`"id":1,"result":{}`, "from p", `"id":3,"error":{"code":-32600`, `"code":-32600`, `"id":4,"error":{"code":-32600`, `"id":5,"error":{"code":-32601`}

	pipes := s.stdio("")
	pipes.send(ask)
	pipes.expect(`"code":-32600`, "Batches") // there is no revision yet
	pipes.request(`1`, "initialize", `"protocolVersion":"2025-03-26"`)
	pipes.expect(`"id":1`)
	pipes.send(batch(aNotification, aResponse))
	pipes.send(ask)
	holdsInOrder(t, pipes.next(), want...)
	pipes.send(`[]`)
	pipes.expect(`{"jsonrpc":"2.0","error":{"code":-32600`)
	pipes.request(`9`, "prompts/list", meta) // the modern era has none, whatever was settled on
	pipes.expect(`"id":9`, `"resultType":"complete"`)
	pipes.request(`1`, "initialize", `"protocolVersion":"2025-06-18"`)
	pipes.expect(`"id":1`)
	pipes.send(ask)
	pipes.expect(`"code":-32600`, "Batches")

	sse := s.initialized("2025-03-26", "")
	sse.post(batch(aNotification, aResponse))
	sse.post(ask)
	holdsInOrder(t, sse.expect(), want...)
}
