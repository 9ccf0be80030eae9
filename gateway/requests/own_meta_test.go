package requests_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Clients trust what the gateway says in _meta, as that a prompt is a template. No server can say it.
func TestOwnMeta_IsOfNoServer(t *testing.T) {
	const own = `"_meta":{"io.github.promptweir/template":true,"io.github.promptweir/partial":[],"com.example/x":1}`
	for _, p := range []*gatewaytest.Peer{gatewaytest.NewPeer(t, "p", `{"name":"a",`+own+`}`), gatewaytest.NewModernPeer(t, "p", `{"name":"a",`+own+`}`)} {
		s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
		p.OnGet(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
			p.Respond(w, call, `{`+own+`,"messages":[{"role":"user","content":{"type":"text","text":"promptweir/",`+own+`}}],"resultType":"complete"}`)
			return true
		})
		for _, c := range []*gatewaytest.Client{s.Modern(""), s.Legacy("2025-11-25", "")} {
			for _, a := range []gatewaytest.Response{c.CallUnchecked("prompts/list", ""), c.CallUnchecked("prompts/get", gatewaytest.GetParams("p.a"))} {
				a.Want(t, http.StatusOK, `"com.example/x":1`)
				if strings.Contains(a.Body, "io.github") {
					t.Errorf("%s: %s", c.Revision, a.Body)
				}
			}
		}
	}
}

func TestOwnMeta_IsInNoMessageBeforeAResponse(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	p.OnGet(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		token, id := wire.Members(jsontext.Value(call.Params)).Object("_meta").Get("progressToken"), call.ID
		w.Header().Set("Content-Type", "text/event-stream")
		_, err := fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":1,"+
			"\"_meta\":{\"io.github.promptweir/template\":true,\"com.example/x\":1}}}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"messages\":[]}}\n\n", token, id)
		return err == nil
	})
	a := s.Legacy("2025-11-25", "").CallUnchecked("prompts/get", `{"name":"p.a","_meta":{"progressToken":"t"}}`)
	a.Want(t, http.StatusOK, `"com.example/x":1`, `"messages":[]`)
	if strings.Contains(a.Body, "io.github.promptweir/template") {
		t.Error(a.Body)
	}
}
