package requests_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

// serveBothEras serves a server of the official SDK: requests of the modern era without sessions, others with sessions.
func serveBothEras(t *testing.T, server *mcp.Server) *gatewaytest.Peer {
	t.Helper()
	handler := func(stateless bool) http.Handler {
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: stateless})
	}
	modern, legacy := handler(true), handler(false)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") == gatewaytest.Latest {
			modern.ServeHTTP(w, r)
			return
		}
		legacy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return &gatewaytest.Peer{TB: t, Name: "dual", URL: web.URL}
}

// A prompt whose handler asks in the legacy way can be had by clients of both eras, and so can one that requires input in the
// modern way.
func TestLegacyGets_ReachClientsOfBothEras(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "dual", Version: "1"}, nil)
	greet := func(result *mcp.ElicitResult) *mcp.GetPromptResult {
		text := &mcp.TextContent{Text: fmt.Sprint("Hello, ", result.Content["name"])}
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: text}}}
	}
	server.AddPrompt(&mcp.Prompt{Name: "old"}, func(ctx context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		result, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Who?"})
		if err != nil {
			return nil, err
		}
		return greet(result), nil
	})
	server.AddPrompt(&mcp.Prompt{Name: "new"}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		if reply, ok := r.Params.InputResponses["who"]; ok {
			return greet(reply.(*mcp.ElicitResult)), nil //nolint:forcetypeassert // it is what was required
		}
		return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{"who": &mcp.ElicitParams{Message: "Who?"}}}, nil
	})
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", serveBothEras(t, server)))
	for _, revision := range []string{"2025-11-25", gatewaytest.Latest} {
		for _, transport := range []string{"http", "stdio"} {
			ada := meet(t, s, "Ada", revision, transport)
			for range 2 {
				for _, name := range []string{"dual.old", "dual.new"} {
					got, err := ada.session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: name})
					if err != nil {
						t.Errorf("%s over %s: %s: %v", revision, transport, name, err)
						continue
					}
					if text, ok := got.Messages[0].Content.(*mcp.TextContent); !ok || text.Text != "Hello, Ada" {
						t.Errorf("%s over %s: %s = %+v", revision, transport, name, got.Messages[0].Content)
					}
				}
			}
		}
	}
	// Who cannot be asked sees what the server says.
	r := s.Modern("").CallUnchecked("prompts/get", gatewaytest.GetParams("dual.old"))
	if !strings.Contains(r.Body, "cannot be sent while serving a request on protocol version 2026-07-28") {
		t.Errorf("without elicitation: %s", r.Body)
	}
}
