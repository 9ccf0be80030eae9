package main

import (
	"context"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Clients of both eras are notified of each step of the changing prompt, and find it in the list.
func TestChange_NotifiesClientsOfBothEras(t *testing.T) {
	for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			prompts := newServer()
			server := httptest.NewServer(handler(prompts))
			defer server.Close()
			defer server.CloseClientConnections()

			changed := make(chan struct{}, 1)
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
				PromptListChangedHandler: func(context.Context, *mcp.PromptListChangedRequest) { changed <- struct{}{} },
			})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: server.URL},
				&mcp.ClientSessionOptions{ProtocolVersion: revision})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()

			var seen []string
			for step := range 3 {
				change(prompts, step)
				select {
				case <-changed:
				case <-ctx.Done():
					t.Fatalf("not told of step %d", step)
				}
				list, err := session.ListPrompts(ctx, nil)
				if err != nil {
					t.Fatal(err)
				}
				found := slices.IndexFunc(list.Prompts, func(p *mcp.Prompt) bool { return p.Name == incidentOfTheDay })
				if found < 0 {
					seen = append(seen, "none")
					continue
				}
				seen = append(seen, list.Prompts[found].Description)
			}
			want := []string{
				"Learn from the certificate that expired on a Sunday.",
				"Learn from the disk that was full of logs about a full disk.",
				"none",
			}
			if diff := cmp.Diff(want, seen); diff != "" {
				t.Errorf("seen after each step (-want +got):\n%s", diff)
			}
		})
	}
}
