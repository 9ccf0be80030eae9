package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestModernRequestsStandForThemselves(t *testing.T) {
	p := newPeer(t, "p", "a", "grüße")
	s := serve(t, team("eng", "", "", p))
	const good = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	const able = `"io.modelcontextprotocol/clientCapabilities":{}`
	post := func(method, name, meta string, h ...string) answer {
		t.Helper()
		params := `"_meta":{` + meta + `}`
		if name != "" {
			params = fmt.Sprintf(`"name":%q,`, name) + params
		}
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"é","method":%q,"params":{%s}}`, method, params)
		a := send(t, http.MethodPost, s.url, body, append(headers{"Mcp-Protocol-Version", latest, "Mcp-Method", method, "Mcp-Name", name}, h...))
		if !strings.Contains(a.body, `"id":"é"`) {
			t.Errorf("the answer is not to the request: %s", a.body)
		}
		conform(t, latest, method, a.body)
		return a
	}
	post("prompts/list", "", good+","+able, "Mcp-Name", "-").is(t, http.StatusOK, `"prompts":[{`)
	post("prompts/get", "p.a", good+","+able).is(t, http.StatusOK, "from p")
	mismatch := func(method, name string, h ...string) {
		t.Helper()
		post(method, name, good+","+able, h...).is(t, http.StatusBadRequest, `"code":-32020`)
	}
	mismatch("prompts/list", "", "Mcp-Method", "-")
	mismatch("prompts/list", "", "Mcp-Method", "prompts/get")
	mismatch("prompts/list", "", "Mcp-Method", "Prompts/List")
	mismatch("prompts/list", "", "Mcp-Protocol-Version", "-")
	mismatch("prompts/list", "", "Mcp-Protocol-Version", "2025-11-25")
	mismatch("prompts/get", "p.a", "Mcp-Name", "-")
	mismatch("prompts/get", "p.a", "Mcp-Name", "p.b")
	mismatch("prompts/get", "p.grüße", "Mcp-Name", "p.grüße")
	mismatch("prompts/get", "p.grüße", "Mcp-Name", "=?base64?%%%?=")
	mismatch("prompts/get", "p.grüße", "Mcp-Name", "=?base64?cC5h?=")
	post("prompts/get", "p.grüße", good+","+able, "Mcp-Name", "=?base64?cC5ncsO8w59l?=").is(t, http.StatusOK, "from p")
	post("prompts/get", "p.a", good+","+able, "Mcp-Name", "=?base64?cC5h?=").is(t, http.StatusOK, "from p")

	malformed := func(meta, missing string) {
		t.Helper()
		post("prompts/list", "", meta, "Mcp-Name", "-").is(t, http.StatusBadRequest, `"code":-32602`, missing)
	}
	malformed(able, "io.modelcontextprotocol/protocolVersion")
	malformed(`"io.modelcontextprotocol/protocolVersion":7,`+able, "io.modelcontextprotocol/protocolVersion")
	malformed(good, "io.modelcontextprotocol/clientCapabilities")
	malformed(good+`,"io.modelcontextprotocol/clientCapabilities":null`, "io.modelcontextprotocol/clientCapabilities")

	for _, revision := range []string{"2027-01-01", "1900-01-01", "DRAFT"} {
		post("prompts/list", "", `"io.modelcontextprotocol/protocolVersion":"`+revision+`",`+able, "Mcp-Protocol-Version", revision, "Mcp-Method", "-").
			is(t, http.StatusBadRequest, `"code":-32022`, `"requested":"`+revision+`"`, `"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`)
	}
	for _, unknown := range []string{"tools/list", "resources/list", "resources/templates/list", "ping", "initialize", "logging/setLevel", "no/such"} {
		post(unknown, "", good+","+able, "Mcp-Name", "-").is(t, http.StatusNotFound, `"code":-32601`)
	}
	h := headers{"Mcp-Protocol-Version", latest, "Mcp-Method", "notifications/x"}
	send(t, http.MethodPost, s.url, `{"jsonrpc":"2.0","method":"notifications/x"}`, h).is(t, http.StatusAccepted)
	send(t, http.MethodPost, s.url, `{"jsonrpc":"2.0","id":1,"result":{}}`, h).is(t, http.StatusBadRequest)
	// A session id is ignored, and none is made.
	a := post("prompts/list", "", good+","+able, "Mcp-Name", "-", "Mcp-Session-Id", "garbage")
	a.is(t, http.StatusOK)
	if got := a.header.Get("Mcp-Session-Id"); got != "" {
		t.Errorf("a session id in the modern era: %q", got)
	}
}

func TestDiscover(t *testing.T) {
	s := serve(t, `gateway { instructions = "Ask." }`)
	s.modern("").call("server/discover", "").is(t, http.StatusOK,
		`"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`,
		`"capabilities":{"prompts":{"listChanged":true},"logging":{},"completions":{}}`, `"resultType":"complete"`, `"instructions":"Ask."`,
		`"io.modelcontextprotocol/serverInfo":{"name":"promptweir","version":"1.2.3"}`, `"ttlMs":`, `"cacheScope":"public"`)
}

func TestBothErasOnOneConnection(t *testing.T) {
	s := serve(t, team("eng", "", "", newPeer(t, "p", "a")))
	legacy, modern := s.legacy("2025-03-26", ""), s.modern("")
	for range 3 {
		legacy.call("prompts/get", get("p.a")).is(t, http.StatusOK, "from p")
		modern.call("prompts/get", get("p.a")).is(t, http.StatusOK, "from p", `"resultType":"complete"`)
	}
}

func TestSubscriptions(t *testing.T) {
	p := newPeer(t, "p", "a")
	s := serve(t, team("eng", "", "", p))
	c := s.modern("")
	one, two := c.open(`7`), c.open(`"s\u0041"`)
	body, h := c.envelope(`8`, "subscriptions/listen", `{"notifications":{"toolsListChanged":true,"promptsListChanged":false}}`)
	tools := c.openWith(http.MethodPost, body, h)
	if ack := tools.next(); !strings.Contains(ack.Data, `"notifications":{}`) {
		t.Errorf("acknowledgment %s grants what was not asked for or is not there", ack.Data)
	}
	p.watched().offer("a", "b")
	for id, stream := range map[string]*stream{`7`: one, `"s\u0041"`: two} {
		event := stream.changed()
		conform(t, latest, "notifications/prompts/list_changed", event.Data)
		if want := `"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}`; !strings.Contains(event.Data, want) {
			t.Errorf("got %s, want %s in it", event.Data, want)
		}
		if event.LastEventID != "" {
			t.Errorf("a modern event has the id %q", event.LastEventID)
		}
	}
	s.Drain()
	for id, stream := range map[string]*stream{`7`: one, `"s\u0041"`: two, `8`: tools} {
		last := stream.next()
		conform(t, latest, "subscriptions/listen", last.Data)
		if want := `"id":` + id + `,"result":{"resultType":"complete"`; !strings.Contains(last.Data, want) {
			t.Errorf("got %s at the end, want %s in it", last.Data, want)
		}
		stream.ended()
	}
	for _, filter := range []string{``, `"notifications":7`, `"notifications":null`} {
		c.callRaw("subscriptions/listen", `{`+filter+`}`).is(t, http.StatusBadRequest, `"code":-32602`)
	}
}
