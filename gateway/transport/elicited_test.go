package transport_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

// paidPrompt is a server of the official SDK whose prompt "report" is refused until its caller has paid at a URL (-32042).
type paidPrompt struct {
	*mcp.Server

	refused chan *mcp.ServerSession
	paid    atomic.Bool
}

func newPaidPrompt() *paidPrompt {
	p := &paidPrompt{
		Server: mcp.NewServer(&mcp.Implementation{Name: "paid", Version: "1"}, nil), refused: make(chan *mcp.ServerSession, 10),
	}
	p.AddPrompt(&mcp.Prompt{Name: "report"}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		if p.paid.Load() {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "the report"}}}}, nil
		}
		p.refused <- r.Session
		return nil, mcp.URLElicitationRequiredError([]*mcp.ElicitParams{
			{Mode: "url", ElicitationID: "e1", Message: "Pay first", URL: "https://pay.example.com/"},
		})
	})
	return p
}

// pay makes the server say that the elicitation has ended.
func (p *paidPrompt) pay(t *testing.T, session *mcp.ServerSession) {
	t.Helper()
	p.paid.Store(true)
	if err := session.NotifyElicitationComplete(t.Context(), &mcp.ElicitationCompleteParams{ElicitationID: "e1"}); err != nil {
		t.Error(err)
	}
}

// serve returns a peer that reaches the server by a transport.
func (p *paidPrompt) serve(t *testing.T, transport string) *gatewaytest.Peer {
	t.Helper()
	get := func(*http.Request) *mcp.Server { return p.Server }
	var handler http.Handler = mcp.NewStreamableHTTPHandler(get, nil)
	if transport == "sse" {
		handler = mcp.NewSSEHandler(get, nil)
	}
	h := httptest.NewServer(handler)
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return &gatewaytest.Peer{TB: t, Name: "paid", URL: h.URL}
}

// A client whose get is refused until its user has been at a URL gets again when the server says that this is over. Behind the
// gateway, the server says so to another session than the client's, after the get.
func TestElicitationComplete_ReachesTheClientAfterItsGet(t *testing.T) {
	for _, upstream := range []string{"streamable-http", "sse"} {
		for _, transport := range []string{"http", "sse", "stdio"} {
			t.Run(upstream+" "+transport, func(t *testing.T) {
				server := newPaidPrompt()
				s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", server.serve(t, upstream)))
				session, ended := connectPayer(t, s, transport)
				_, stranger := connectPayer(t, s, transport)
				_, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "paid.report"})
				if refusal, ok := errors.AsType[*jsonrpc.Error](err); !ok || refusal.Code != mcp.CodeURLElicitationRequired {
					t.Fatalf("the get before the payment: %v", err)
				}
				server.pay(t, <-server.refused)
				select {
				case id := <-ended:
					if id != "e1" {
						t.Errorf("the elicitation that ended is %q", id)
					}
				case <-time.After(gatewaytest.Patience):
					t.Fatal("the client is not told")
				}
				got, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "paid.report"})
				if err != nil {
					t.Fatal(err)
				}
				if text, ok := got.Messages[0].Content.(*mcp.TextContent); !ok || text.Text != "the report" {
					t.Errorf("got %+v", got.Messages[0].Content)
				}
				if len(stranger) > 0 {
					t.Error("a client that was refused nothing is told")
				}
			})
		}
	}
}

// A client that opens its stream later, or again, is told then.
func TestElicitationComplete_WaitsForAStream(t *testing.T) {
	server := newPaidPrompt()
	s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", server.serve(t, "streamable-http")))
	const capabilities = `{"elicitation":{"url":{}}}`
	c, other := s.LegacyWith("2025-11-25", "", capabilities), s.LegacyWith("2025-11-25", "", capabilities)
	c.CallUnchecked("prompts/get", gatewaytest.GetParams("paid.report")).Want(t, http.StatusOK, "-32042")
	server.pay(t, <-server.refused)
	for _, client := range []*gatewaytest.Client{c, other} {
		stream := client.Listen("")
		stream.Next() // it has no data
		if client == other {
			stream.WantSilence()
			continue
		}
		data := stream.Next().Data
		gatewaytest.CheckSchema(t, "2025-11-25", "notifications/elicitation/complete", data)
		if !strings.Contains(data, `"elicitationId":"e1"`) {
			t.Errorf("got %s", data)
		}
	}
}

// connectPayer connects a client that can be sent to URLs, and returns the ids of elicitations that have ended.
func connectPayer(t *testing.T, s *gatewaytest.Server, transport string) (session *mcp.ClientSession, ended chan string) {
	t.Helper()
	ended = make(chan string, 10)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return nil, errors.New("unexpected")
		},
		ElicitationCompleteHandler: func(_ context.Context, r *mcp.ElicitationCompleteNotificationRequest) {
			ended <- r.Params.ElicitationID
		},
	})
	session, err := client.Connect(t.Context(), s.SDKTransport(t, transport), &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session, ended
}

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
