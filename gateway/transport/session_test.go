package transport_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// one returns a request.
func one(id, method, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`
}

// batch returns a batch of messages.
func batch(messages ...string) string { return "[" + strings.Join(messages, ", ") + "]" }

const (
	someNotification = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	someResponse     = `{"jsonrpc":"2.0","id":1,"result":{}}`
)

// wantInOrder fails the test unless the body is a batch with a response for each part, in the same order.
func wantInOrder(t *testing.T, body string, parts ...string) {
	t.Helper()
	var responses []json.RawMessage
	if err := json.Unmarshal([]byte(body), &responses); err != nil || len(responses) != len(parts) {
		t.Fatalf("got %s, want a batch of %d responses", body, len(parts))
	}
	for i, part := range parts {
		if !strings.Contains(string(responses[i]), part) {
			t.Errorf("got %s, want %s in it", responses[i], part)
		}
		if strings.Contains(part, `"id":`) {
			gatewaytest.CheckSchema(t, "2025-03-26", "", string(responses[i]))
		}
	}
}

func TestBatch_RespondsInOrder(t *testing.T) {
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "p", "a")))
	c := s.Legacy("2025-03-26", "")
	c.Headers = c.Headers[:2] // 2025-03-26 has no header for the revision
	answer := func(status int, messages ...string) string {
		t.Helper()
		a := gatewaytest.Send(t, http.MethodPost, c.URL, batch(messages...), c.Headers)
		a.Want(t, status)
		return a.Body
	}
	got := answer(http.StatusOK, one(`1`, "ping", ``), someNotification, one(`"b"`, "prompts/list", ``), someResponse,
		one(`3`, "prompts/get", `"name":"p.a"`), one(`4`, "prompts/get", `"name":"p.none"`), one(`5`, "tools/list", ``))
	wantInOrder(t, got, `"id":1,"result":{}`, `"id":"b"`, `from p`, `"id":4,"error":{"code":-32602`, `{"tools":[]}`)
	got = answer(http.StatusOK, one(`1`, "initialize", `"protocolVersion":"2025-03-26"`), `{"jsonrpc":"1.0","id":2,"method":"ping"}`,
		`7`, `{}`, batch(one(`8`, "ping", ``)), one(`9`, "prompts/list", gatewaytest.Meta), one(`10`, "ping", ``))
	wantInOrder(t, got, `"id":1,"error":{"code":-32600`, `"id":2,"error":{"code":-32600`, `"code":-32700`, `"code":-32600`, `"code":-32600`,
		`"id":9,"error":{"code":-32600`, `"id":10,"result":{}`)
	for _, silent := range [][]string{{someNotification}, {someResponse, someResponse}, {someNotification, someResponse}} {
		upstreamtest.Equal(t, "", answer(http.StatusAccepted, silent...), "%s: got the body", silent)
	}
	full := make([]string, 101)
	for i := range full {
		full[i] = one(`1`, "ping", ``)
	}
	upstreamtest.Equal(t, 100, strings.Count(answer(http.StatusOK, full[:100]...), `"result":{}`), "results of 100 requests")
	if got := answer(http.StatusBadRequest, full...); !strings.Contains(got, `"code":-32600`) || !strings.Contains(got, "at most 100") {
		t.Errorf("got %s", got)
	}
	for body, code := range map[string]string{`[]`: "-32600", `[{}`: "-32700", `[{"id":1,"id":1}]`: "-32700", `[{}] x`: "-32700"} {
		gatewaytest.Send(t, http.MethodPost, c.URL, body, c.Headers).Want(t, http.StatusBadRequest, `"code":`+code)
	}
}

func TestBatch_IsOfOneRevisionAndSession(t *testing.T) {
	s := gatewaytest.Serve(t, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}")
	body := batch(one(`1`, "ping", ``))
	post := func(h gatewaytest.Headers) gatewaytest.Response {
		return gatewaytest.Send(t, http.MethodPost, s.URL, body, h)
	}
	for _, revision := range gatewaytest.LegacyRevisions {
		a := post(s.Legacy(revision, "ann").Headers)
		if revision == "2025-03-26" {
			a.Want(t, http.StatusOK, `[{"jsonrpc":"2.0","id":1,"result":{}}]`)
			continue
		}
		a.Want(t, http.StatusBadRequest, `"code":-32600`, "Batches")
	}
	post(append(gatewaytest.Headers{"Mcp-Protocol-Version", gatewaytest.Latest}, gatewaytest.Bearer("ann")...)).Want(t, http.StatusBadRequest, `"code":-32600`, "Batches")
	post(gatewaytest.Bearer("ann")).Want(t, http.StatusBadRequest, "Mcp-Session-Id")
	post(nil).Want(t, http.StatusUnauthorized)
	session := s.Legacy("2025-03-26", "ann").Headers[2:4]
	post(append(gatewaytest.Bearer("bob"), session...)).Want(t, http.StatusNotFound)
}

func TestBatch_WorksOverConnections(t *testing.T) {
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "p", "a")))
	ask := batch(one(`1`, "ping", ``), someNotification, one(`2`, "prompts/get", `"name":"p.a"`), one(`3`, "initialize", ``), `{"jsonrpc":"2.0"}`,
		one(`4`, "subscriptions/listen", gatewaytest.Meta), one(`5`, "no/such", ``))
	want := []string{`"id":1,"result":{}`, "from p", `"id":3,"error":{"code":-32600`, `"code":-32600`, `"id":4,"error":{"code":-32600`, `"id":5,"error":{"code":-32601`}

	pipes := s.Stdio("")
	pipes.Send(ask)
	pipes.WantMessage(`"code":-32600`, "Batches") // before initialize there is no revision
	pipes.Request(`1`, "initialize", `"protocolVersion":"2025-03-26"`)
	pipes.WantMessage(`"id":1`)
	pipes.Send(batch(someNotification, someResponse))
	pipes.Send(ask)
	wantInOrder(t, pipes.Next(), want...)
	pipes.Send(`[]`)
	pipes.WantMessage(`{"jsonrpc":"2.0","error":{"code":-32600`)
	pipes.Request(`9`, "prompts/list", gatewaytest.Meta) // a request of the modern era is served beside the legacy session
	pipes.WantMessage(`"id":9`, `"resultType":"complete"`)
	pipes.Request(`1`, "initialize", `"protocolVersion":"2025-06-18"`)
	pipes.WantMessage(`"id":1`)
	pipes.Send(ask)
	pipes.WantMessage(`"code":-32600`, "Batches")

	sse := s.SSESession("2025-03-26", "")
	sse.Send(batch(someNotification, someResponse))
	sse.Send(ask)
	wantInOrder(t, sse.WantMessage(), want...)
}
