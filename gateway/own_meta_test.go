package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
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

// Nor can a server's request or its error.
func TestOwnMeta_IsInNoRequestOrErrorOfAServer(t *testing.T) {
	const own = `"_meta":{"io.github.promptweir/template":true,"com.example/x":1}`
	want := func(who, got, text string) {
		t.Helper()
		if !strings.Contains(got, text) || !strings.Contains(got, `"com.example/x":1`) || strings.Contains(got, "io.github") {
			t.Errorf("%s gets %s, want %s and only the foreign key of _meta", who, got, text)
		}
	}
	const capabilities = `{"elicitation":{},"sampling":{}}`
	for method, params := range map[string]string{
		"elicitation/create":     `{"message":"Who?","requestedSchema":{"type":"object","properties":{}},` + own + `}`,
		"sampling/createMessage": `{"maxTokens":1,"messages":[{"role":"user","content":{"type":"text","text":"x"}}],` + own + `}`,
	} {
		s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", gatewaytest.NewRequestingPeer(t, method+" "+params).Peer))
		legacy := s.LegacyWith("2025-11-25", "", capabilities)
		want("a legacy client", legacy.GetStream("7", gatewaytest.GetParams("up.ask")).Next().Data, method)
		modern := s.ModernWith("", capabilities)
		want("a modern client", modern("prompts/get", gatewaytest.GetParams("up.ask")).Body, method)
	}
	p := gatewaytest.NewPeer(t, "up", "ask")
	p.OnGet(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no","data":{%s}}}`, call.ID, own)
		return true
	})
	s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", p))
	for _, c := range []*gatewaytest.Client{s.Modern(""), s.Legacy("2025-11-25", "")} {
		want("the caller", c.CallUnchecked("prompts/get", gatewaytest.GetParams("up.ask")).Body, `"error"`)
	}
}
