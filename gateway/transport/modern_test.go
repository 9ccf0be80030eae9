package transport_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestModern_EachRequestStandsAlone(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a", "grüße")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	const good = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	const able = `"io.modelcontextprotocol/clientCapabilities":{}`
	post := func(method, name, meta string, h ...string) gatewaytest.Response {
		t.Helper()
		params := `"_meta":{` + meta + `}`
		if name != "" {
			params = fmt.Sprintf(`"name":%q,`, name) + params
		}
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"é","method":%q,"params":{%s}}`, method, params)
		a := gatewaytest.Send(t, http.MethodPost, s.URL, body, append(gatewaytest.Headers{"Mcp-Protocol-Version", gatewaytest.Latest, "Mcp-Method", method, "Mcp-Name", name}, h...))
		if !strings.Contains(a.Body, `"id":"é"`) {
			t.Errorf("the response has another id: %s", a.Body)
		}
		gatewaytest.CheckSchema(t, gatewaytest.Latest, method, a.Body)
		return a
	}
	post("prompts/list", "", good+","+able, "Mcp-Name", "-").Want(t, http.StatusOK, `"prompts":[{`)
	post("prompts/get", "p.a", good+","+able).Want(t, http.StatusOK, "from p")
	mismatch := func(method, name string, h ...string) {
		t.Helper()
		post(method, name, good+","+able, h...).Want(t, http.StatusBadRequest, `"code":-32020`)
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
	post("prompts/get", "p.grüße", good+","+able, "Mcp-Name", "=?base64?cC5ncsO8w59l?=").Want(t, http.StatusOK, "from p")
	post("prompts/get", "p.a", good+","+able, "Mcp-Name", "=?base64?cC5h?=").Want(t, http.StatusOK, "from p")

	malformed := func(meta, missing string) {
		t.Helper()
		post("prompts/list", "", meta, "Mcp-Name", "-").Want(t, http.StatusBadRequest, `"code":-32602`, missing)
	}
	malformed(able, "io.modelcontextprotocol/protocolVersion")
	malformed(`"io.modelcontextprotocol/protocolVersion":7,`+able, "io.modelcontextprotocol/protocolVersion")
	malformed(good, "io.modelcontextprotocol/clientCapabilities")
	malformed(good+`,"io.modelcontextprotocol/clientCapabilities":null`, "io.modelcontextprotocol/clientCapabilities")

	for _, revision := range []string{"2027-01-01", "1900-01-01", "DRAFT"} {
		post("prompts/list", "", `"io.modelcontextprotocol/protocolVersion":"`+revision+`",`+able, "Mcp-Protocol-Version", revision, "Mcp-Method", "-").
			Want(t, http.StatusBadRequest, `"code":-32022`, `"requested":"`+revision+`"`, `"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`)
	}
	for _, filter := range []string{``, `"notifications":7`, `"notifications":null`} {
		s.Modern("").CallUnchecked("subscriptions/listen", `{`+filter+`}`).Want(t, http.StatusBadRequest, `"code":-32602`)
	}
	for _, unknown := range []string{"tools/list", "resources/list", "resources/templates/list", "ping", "initialize", "logging/setLevel", "no/such"} {
		post(unknown, "", good+","+able, "Mcp-Name", "-").Want(t, http.StatusNotFound, `"code":-32601`)
	}
	h := gatewaytest.Headers{"Mcp-Protocol-Version", gatewaytest.Latest, "Mcp-Method", "notifications/x"}
	gatewaytest.Send(t, http.MethodPost, s.URL, `{"jsonrpc":"2.0","method":"notifications/x"}`, h).Want(t, http.StatusAccepted)
	gatewaytest.Send(t, http.MethodPost, s.URL, `{"jsonrpc":"2.0","id":1,"result":{}}`, h).Want(t, http.StatusBadRequest)
	// The gateway ignores a session id, and gives out none.
	a := post("prompts/list", "", good+","+able, "Mcp-Name", "-", "Mcp-Session-Id", "garbage")
	a.Want(t, http.StatusOK)
	upstreamtest.Equal(t, "", a.Header.Get("Mcp-Session-Id"), "session id")
}

func TestDiscover_DescribesTheGateway(t *testing.T) {
	s := gatewaytest.Serve(t, `gateway { instructions = "Ask." }`)
	s.Modern("").Call("server/discover", "").Want(t, http.StatusOK,
		`"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`,
		`"capabilities":{"prompts":{"listChanged":true},"logging":{},"completions":{}}`, `"resultType":"complete"`, `"instructions":"Ask."`,
		`"io.modelcontextprotocol/serverInfo":{"name":"promptweir","version":"1.2.3"}`, `"ttlMs":`, `"cacheScope":"public"`)
}

func TestListen_AnnouncesChangesOfABusyServerTogether(t *testing.T) {
	t.Parallel()
	const pause = 500 * time.Millisecond
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	streams := s.ListenAll("")
	p.AwaitStream()
	began := time.Now()
	const changes = 5
	for i := range changes {
		name := fmt.Sprintf("b%d", i)
		p.Offer("a", name)
		for client := range streams {
			upstreamtest.Eventually(t, "the change is listed", func() bool { return slices.Contains(client.List(), "p."+name) })
		}
	}
	for client, stream := range streams {
		announced := len(stream.Events)
		// A stream announces a first change at once, and then one in each pause.
		if most := int(time.Since(began)/pause) + 1; announced > most {
			t.Errorf("%s: %d changes in %v were announced %d times, want %d at most", client.Revision, changes, time.Since(began), announced, most)
		}
		stream.WantChange()
		stream.WantChange() // those that were held back
	}
}
