package transport_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// newSDKServer starts a server of the official SDK, of the modern or of the legacy era.
func newSDKServer(t *testing.T, modern bool, prompts ...string) (*mcp.Server, *gatewaytest.Peer) {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, &mcp.ServerOptions{
		PageSize: 2,
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{r.Params.Ref.Name + "-" + r.Params.Argument.Value}}}, nil
		},
	})
	for _, name := range prompts {
		addPrompt(s, name)
	}
	h := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: modern}))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return s, &gatewaytest.Peer{TB: t, URL: h.URL}
}

func addPrompt(s *mcp.Server, name string) {
	s.AddPrompt(&mcp.Prompt{Name: name, Description: "says " + name, Arguments: []*mcp.PromptArgument{{Name: "who", Required: true}}},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: name + " for " + r.Params.Arguments["who"]}}}}, nil
		})
}

// The official SDK's client, at each revision and over each transport, uses the gateway in front of the SDK's server in
// both eras.
func TestSDK_WorksOnBothSides(t *testing.T) {
	old, legacy := newSDKServer(t, false, "a", "b", "c (with spaces)")
	fresh, modern := newSDKServer(t, true, "a", "b", "c")
	legacy.Name, modern.Name = "old", "fresh"
	s := gatewaytest.Serve(t, `gateway { page_size = 2 }`+"\n"+gatewaytest.Team("eng", "", "", legacy, modern))
	want := []string{"fresh.a", "fresh.b", "fresh.c", "old.a", "old.b", "old.c (with spaces)"}
	upstreamtest.Eventually(t, "all prompts are listed", func() bool { return len(s.Modern("").List()) == len(want) })
	round := 0
	for _, revision := range append([]string{gatewaytest.Latest}, gatewaytest.LegacyRevisions...) {
		for _, transport := range []string{"http", "stdio", "sse"} {
			if revision == gatewaytest.Latest && transport == "sse" {
				continue // the modern era has no HTTP+SSE
			}
			round++
			t.Run(revision+" "+transport, func(t *testing.T) {
				changed := make(chan struct{}, 10)
				client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
					PromptListChangedHandler: func(context.Context, *mcp.PromptListChangedRequest) { changed <- struct{}{} },
				})
				session, err := client.Connect(t.Context(), s.SDKTransport(t, transport), &mcp.ClientSessionOptions{ProtocolVersion: revision})
				if err != nil {
					t.Fatal(err)
				}
				defer session.Close()
				upstreamtest.Equal(t, revision, session.InitializeResult().ProtocolVersion, "revision")
				list := func() []string {
					names := []string{}
					for prompt, err := range session.Prompts(t.Context(), nil) {
						if err != nil {
							t.Fatal(err)
						}
						names = append(names, prompt.Name)
					}
					return names
				}
				upstreamtest.Equal(t, want, list(), "prompts")
				for name, own := range map[string]string{"old.a": "a", "old.c (with spaces)": "c (with spaces)", "fresh.c": "c"} {
					got, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: name, Arguments: map[string]string{"who": "me"}})
					if err != nil {
						t.Fatal(err)
					}
					if text, ok := got.Messages[0].Content.(*mcp.TextContent); !ok || text.Text != own+" for me" {
						t.Errorf("%s: %+v", name, got.Messages[0].Content)
					}
				}
				completed, err := session.Complete(t.Context(), &mcp.CompleteParams{
					Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "fresh.b"}, Argument: mcp.CompleteParamsArgument{Name: "who", Value: "m"},
				})
				if err != nil || completed.Completion.Values[0] != "b-m" {
					t.Errorf("completion: %+v, %v", completed, err)
				}
				if _, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "old.none"}); err == nil {
					t.Error("a get of an unknown prompt succeeds")
				}
				// The legacy client opens its stream some time after connecting, and is not notified of earlier changes.
				var added []string
				upstreamtest.Eventually(t, "the client is notified and lists the change", func() bool {
					added = append(added, fmt.Sprintf("x%d", len(added)))
					addPrompt(old, added[len(added)-1])
					addPrompt(fresh, added[len(added)-1])
					select {
					case <-changed:
						return len(list()) > len(want)
					case <-time.After(500 * time.Millisecond):
						return false
					}
				})
				old.RemovePrompts(added...)
				fresh.RemovePrompts(added...)
				// A raw client lists here: that of the SDK may cache, for a minute, a list that was on its way during the change.
				upstreamtest.Eventually(t, "the list is what it was at first", func() bool { return cmp.Equal(want, s.Modern("").List()) })
			})
		}
	}
}
