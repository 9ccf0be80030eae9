package transport_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// browserAccept is what the address bars of Chromium and Firefox send.
const browserAccept = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"

func TestBrowser_SeesHowToPointAClientAtTheEndpoint(t *testing.T) {
	const team = "team \"hush\" {\n  upstream \"hush\" { url = \"http://127.0.0.1:1/mcp\" }\n}\n"
	for name, test := range map[string]struct{ config, want string }{
		"open":  {team, "You need nothing else."},
		"token": {team + "auth {\n token \"ann\" { sha256 = sha256(\"x\") }\n}", "You need a token"},
		"public": {
			team + "gateway {\n public_url = \"https://prompts.example.com\"\n}",
			"claude mcp add --transport http prompts https://prompts.example.com/mcp<",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := gatewaytest.Serve(t, test.config)
			root := strings.TrimSuffix(s.URL, "/mcp") + "/"
			for _, url := range []string{root, s.URL} {
				r := gatewaytest.Send(t, http.MethodGet, url, "", gatewaytest.Headers{"Accept", browserAccept})
				r.Want(t, http.StatusOK)
				if !strings.Contains(r.Body, test.want) || !strings.Contains(r.Body, "claude mcp add") || strings.Contains(r.Body, "hush") {
					t.Errorf("%s lacks %q, or has something of the catalog:\n%s", url, test.want, r.Body)
				}
				policy := r.Header.Get("Content-Security-Policy")
				if !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") || strings.Contains(policy, "unsafe") {
					t.Errorf("Content-Security-Policy %q", policy)
				}
			}
			gatewaytest.Send(t, http.MethodGet, root, "", gatewaytest.Headers{"Accept", browserAccept, "Host", "evil.example.com"}).Want(t, http.StatusForbidden)
			gatewaytest.Send(t, http.MethodGet, root, "", gatewaytest.Headers{"Accept", "*/*"}).Want(t, http.StatusNotFound)
			gatewaytest.Send(t, http.MethodPost, root, "{}", gatewaytest.Headers{"Accept", browserAccept}).Want(t, http.StatusNotFound)
		})
	}
}

// A client that listens accepts a stream of events, and does not get a page, whatever else it accepts.
func TestBrowser_ClientsGetNoPage(t *testing.T) {
	s := gatewaytest.Serve(t, ``)
	for _, accept := range []string{"text/event-stream", "text/html, text/event-stream", "*/*", "application/json", "text/*", "-"} {
		r := gatewaytest.Send(t, http.MethodGet, s.URL, "", gatewaytest.Headers{"Accept", accept})
		if strings.Contains(r.Body, "<html") {
			t.Errorf("Accept: %s gets a page", accept)
		}
	}
}

func TestCORS_IsForAllowedOriginsOnly(t *testing.T) {
	const app = "https://app.example.com"
	s := gatewaytest.Serve(t, "gateway { allowed_origins = [\""+app+"\"] }\nauth {\n"+gatewaytest.Token("ann", "eng")+"}\n"+
		gatewaytest.Team("eng", `"group:eng"`, "", gatewaytest.NewPeer(t, "p", "a")))
	sse := strings.TrimSuffix(s.URL, "/mcp") + "/sse"
	preflight := gatewaytest.Headers{"Origin", app, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization"}
	for _, url := range []string{s.URL, sse} {
		r := gatewaytest.Send(t, http.MethodOptions, url, "", preflight)
		r.Want(t, http.StatusNoContent)
		upstreamtest.Equal(t, app, r.Header.Get("Access-Control-Allow-Origin"), "%s: allowed origin", url)
		for _, name := range []string{"Authorization", "Content-Type", "Accept", "Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Last-Event-ID"} {
			if !strings.Contains(r.Header.Get("Access-Control-Allow-Headers"), name) {
				t.Errorf("%s: %s is not allowed: %v", url, name, r.Header)
			}
		}
		refused := gatewaytest.Send(t, http.MethodOptions, url, "", append(gatewaytest.Headers{"Origin", "https://evil.example.com"}, preflight[2:]...))
		refused.Want(t, http.StatusForbidden)
		local := gatewaytest.Send(t, http.MethodOptions, url, "", append(gatewaytest.Headers{"Origin", "http://localhost:1"}, preflight[2:]...))
		if refused.Header.Get("Access-Control-Allow-Origin")+local.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: origins that are not listed are allowed", url)
		}
	}
	exposed := func(status int, r gatewaytest.Response, name string) {
		t.Helper()
		r.Want(t, status)
		if r.Header.Get("Access-Control-Allow-Origin") != app || !strings.Contains(r.Header.Get("Access-Control-Expose-Headers"), name) || r.Header.Get(name) == "" {
			t.Errorf("a page cannot read %s: %v", name, r.Header)
		}
	}
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":` + gatewaytest.InitializeParams("2025-11-25") + `}`
	exposed(http.StatusUnauthorized, gatewaytest.Send(t, http.MethodPost, s.URL, initialize, gatewaytest.Headers{"Origin", app}), "WWW-Authenticate")
	begun := gatewaytest.Send(t, http.MethodPost, s.URL, initialize, append(gatewaytest.Bearer("ann"), "Origin", app))
	exposed(http.StatusOK, begun, "Mcp-Session-Id")

	for _, h := range []gatewaytest.Headers{{"Mcp-Session-Id", begun.Header.Get("Mcp-Session-Id")}, nil} { // Streamable HTTP, and HTTP+SSE
		url := s.URL
		if h == nil {
			url = sse
		}
		request := gatewaytest.NewRequest(t.Context(), t, http.MethodGet, url, "", append(append(h, "Origin", app), gatewaytest.Bearer("ann")...))
		stream, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if stream.StatusCode != http.StatusOK || stream.Header.Get("Access-Control-Allow-Origin") != app {
			t.Errorf("a page cannot read the stream at %s: %d %v", url, stream.StatusCode, stream.Header)
		}
		stream.Body.Close()
	}
}
