package transport_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

// Over HTTP+SSE a server can ask its clients on few sessions, of which nobody may take more than a share. Callers without a
// credential are told apart by their addresses, which a trusted proxy says.
func TestServerRequests_OneAnonymousClientDoesNotKeepOthersOut(t *testing.T) {
	server, asked := mcp.NewServer(&mcp.Implementation{Name: "asks", Version: "1"}, nil), make(chan string, 10)
	server.AddPrompt(&mcp.Prompt{Name: "form"}, func(ctx context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		asked <- "asked"
		reply, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "who?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}})
		if err != nil {
			return nil, err
		}
		return &mcp.GetPromptResult{Description: reply.Action, Messages: []*mcp.PromptMessage{}}, nil
	})
	h := httptest.NewServer(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	peer := &gatewaytest.Peer{TB: t, Name: "asks", URL: h.URL, Settings: `timeout = "60s"`}
	s := gatewaytest.Serve(t, "gateway { trusted_proxies = [\"127.0.0.0/8\", \"::1\"] }\n"+gatewaytest.Team("a", "", "", peer))
	from := func(address string) *gatewaytest.Client {
		c := s.LegacyWith("2025-11-25", "", `{"elicitation":{}}`)
		c.Headers = append(c.Headers, "X-Forwarded-For", address)
		return c
	}
	greedy := []*gatewaytest.Client{from("192.0.2.1"), from("192.0.2.1"), from("192.0.2.1"), from("192.0.2.1")}
	for _, c := range greedy { // each would hold a session until its user replies
		body, headers := c.Encode("1", "prompts/get", gatewaytest.GetParams("asks.form"))
		request := gatewaytest.NewRequest(t.Context(), t, http.MethodPost, c.URL, body, headers)
		go func() {
			if response, err := http.DefaultClient.Do(request); err == nil {
				_, _ = io.Copy(io.Discard, response.Body) // until the test ends
				_ = response.Body.Close()
			}
		}()
	}
	<-asked
	<-asked
	other := from("192.0.2.2")
	stream := other.GetStream("7", gatewaytest.GetParams("asks.form"))
	other.Reply(stream.WantElicitation("2025-11-25"), `{"action":"accept","content":{}}`)
	if data := stream.Next().Data; !strings.Contains(data, `"description":"accept"`) {
		t.Errorf("got %s", data)
	}
}
