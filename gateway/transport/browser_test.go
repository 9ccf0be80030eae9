package transport_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
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
