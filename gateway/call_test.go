package gateway_test

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// Server requests and notifications during a get pass the same screens, across the eras.
func TestScreens_ApplyToServerRequestsAndNotifications(t *testing.T) {
	upstreams := []string{"http-legacy", "stdio-legacy", "http-modern"}
	s := serveRequesting(t, `timeout = "30s"`, `screen "evil" { patterns = ["(Hello|for) evil"] }`, upstreams...)
	for _, revision := range []string{"2025-11-25", gatewaytest.Latest} {
		for _, up := range upstreams {
			ann, evil := meet(t, s, "ann", revision, "http"), meet(t, s, "evil", revision, "http")
			if got, err := ann.get(t.Context(), up+".elicit"); err != nil || ann.notes() != "Hello ann" {
				t.Errorf("%s, %s: ann gets %q, %v and receives %q", revision, up, got, err, ann.notes())
			}
			for _, prompt := range []string{".elicit", ".sample"} {
				if got, err := evil.get(t.Context(), up+prompt); err == nil {
					t.Errorf("%s, %s: evil gets %q", revision, up, got)
				}
			}
			params := &mcp.GetPromptParams{Name: up + ".tell", Arguments: map[string]string{"who": "evil"}, Meta: mcp.Meta{"progressToken": "x"}}
			if _, err := evil.session.GetPrompt(t.Context(), params); err != nil {
				t.Errorf("%s, %s: %v", revision, up, err)
			}
			upstreamtest.Equal(t, "", evil.notes(), "%s, %s: evil receives", revision, up)
		}
	}
}

// Screens of content check the messages of a sampling request.
func TestScreens_ApplyToTheContentOfServerRequests(t *testing.T) {
	upstreams := []string{"http-legacy", "stdio-legacy", "http-modern"}
	s := serveRequesting(t, `timeout = "30s"`, `screen "images" { content = ["image"] }`, upstreams...)
	for _, revision := range []string{"2025-11-25", gatewaytest.Latest} {
		for _, up := range upstreams {
			ann := meet(t, s, "ann", revision, "http")
			if got, err := ann.get(t.Context(), up+".sample"); err == nil || ann.notes() != "" {
				t.Errorf("%s, %s: ann gets %q and receives %q", revision, up, got, ann.notes())
			}
			if got, err := ann.get(t.Context(), up+".elicit"); err == nil || ann.notes() != "Hello ann" { // an elicitation has no messages
				t.Errorf("%s, %s: ann gets %q and receives %q", revision, up, got, ann.notes())
			}
		}
	}
}
