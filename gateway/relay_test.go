package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// requestingServer returns a server of the official SDK. Each prompt makes the server request that it is named after, and
// has the argument "who" and the reply in its result. A server of the modern era requires the reply as input.
func requestingServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "curious", Version: "1"}, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Logging: &mcp.LoggingCapabilities{}}})
	add := func(name string, handler mcp.PromptHandler) {
		s.AddPrompt(&mcp.Prompt{Name: name, Arguments: []*mcp.PromptArgument{{Name: "who"}}}, handler)
	}
	says := func(r *mcp.GetPromptRequest, text string) *mcp.GetPromptResult {
		text = r.Params.Arguments["who"] + " says " + text
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}
	}
	asks := func(request func(who string) mcp.InputRequest, direct func(context.Context, *mcp.GetPromptRequest, mcp.InputRequest) (mcp.InputResponse, error)) mcp.PromptHandler {
		return func(ctx context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			question := request(r.Params.Arguments["who"])
			var answer mcp.InputResponse
			switch {
			case r.Params.InputResponses != nil:
				answer = r.Params.InputResponses["q"]
			case r.Session.InitializeParams() == nil || r.Session.InitializeParams().ProtocolVersion >= gatewaytest.Latest:
				return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{"q": question}, RequestState: "state of " + r.Params.Arguments["who"]}, nil
			default:
				var err error
				if answer, err = direct(ctx, r, question); err != nil {
					return nil, err
				}
			}
			return says(r, answerText(answer)), nil
		}
	}
	add("elicit", asks(func(who string) mcp.InputRequest {
		return &mcp.ElicitParams{Message: "Hello " + who, RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}}}
	}, func(ctx context.Context, r *mcp.GetPromptRequest, q mcp.InputRequest) (mcp.InputResponse, error) {
		return r.Session.Elicit(ctx, q.(*mcp.ElicitParams)) //nolint:forcetypeassert // made above
	}))
	add("sample", asks(func(who string) mcp.InputRequest {
		return &mcp.CreateMessageParams{MaxTokens: 5, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "Hello " + who}}}}
	}, func(ctx context.Context, r *mcp.GetPromptRequest, q mcp.InputRequest) (mcp.InputResponse, error) {
		return r.Session.CreateMessage(ctx, q.(*mcp.CreateMessageParams)) //nolint:forcetypeassert // made above
	}))
	add("roots", asks(func(string) mcp.InputRequest {
		return &mcp.ListRootsParams{}
	}, func(ctx context.Context, r *mcp.GetPromptRequest, q mcp.InputRequest) (mcp.InputResponse, error) {
		return r.Session.ListRoots(ctx, q.(*mcp.ListRootsParams)) //nolint:forcetypeassert // made above
	}))
	add("tell", func(ctx context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		who := r.Params.Arguments["who"]
		for _, level := range []mcp.LoggingLevel{"debug", "warning"} {
			if err := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: level, Data: "log for " + who}); err != nil {
				return nil, err
			}
		}
		if token := r.Params.GetProgressToken(); token != nil {
			if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1, Message: "progress for " + who}); err != nil {
				return nil, err
			}
		}
		return says(r, "hello"), nil
	})
	return s
}

// playRequestingServer is the child process of such a server.
func playRequestingServer([]string) {
	if err := requestingServer().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func answerText(answer mcp.InputResponse) string {
	switch a := answer.(type) {
	case *mcp.ElicitResult:
		return fmt.Sprint(a.Action, " ", a.Content["name"])
	case *mcp.CreateMessageResult:
		if text, ok := a.Content.(*mcp.TextContent); ok {
			return text.Text
		}
	case *mcp.CreateMessageWithToolsResult:
		if text, ok := a.Content[0].(*mcp.TextContent); ok {
			return text.Text
		}
	case *mcp.ListRootsResult:
		return a.Roots[0].URI
	}
	return fmt.Sprintf("what is %T", answer)
}

// requestingUpstream returns the upstream block of such a server. Its label names its transport and era.
func requestingUpstream(t testing.TB, label, more string) string {
	t.Helper()
	at := func(handler http.Handler) string {
		server := httptest.NewServer(handler)
		t.Cleanup(func() {
			server.CloseClientConnections()
			server.Close()
		})
		return fmt.Sprintf("url = %q", server.URL)
	}
	one := func() func(*http.Request) *mcp.Server {
		s := requestingServer()
		return func(*http.Request) *mcp.Server { return s }
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var reached string
	switch transport, era, _ := strings.Cut(label, "-"); transport {
	case "stdio":
		reached = fmt.Sprintf("command = [%q]\n env = { UPSTREAMTEST_ROLE = \"requesting\", GORACE = \"atexit_sleep_ms=0\" }", program)
		if era == "legacy" {
			reached += "\n protocol = \"2025-11-25\""
		}
	case "sse":
		reached = at(mcp.NewSSEHandler(one(), nil)) + "\n transport = \"sse\""
	default:
		reached = at(mcp.NewStreamableHTTPHandler(one(), &mcp.StreamableHTTPOptions{Stateless: era == "modern"}))
	}
	return fmt.Sprintf("  upstream %q {\n %s\n %s\n }\n", label, reached, more)
}

// person is an SDK client that replies to server requests with its own name, and notes what it receives.
type person struct {
	name    string
	session *mcp.ClientSession

	mu    sync.Mutex // guards heard
	heard []string
}

func (p *person) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = append(p.heard, text)
}

func (p *person) notes() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.heard, "; ")
}

func (p *person) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			p.note(r.Params.Message)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": p.name}}, nil
		},
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			text, _ := r.Params.Messages[0].Content.(*mcp.TextContent)
			p.note(text.Text)
			return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: p.name}}, nil
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) { p.note(fmt.Sprint(r.Params.Data)) },
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			p.note(fmt.Sprint(r.Params.Message, " as ", r.Params.ProgressToken))
		},
	}
}

// meet connects a person to a gateway.
func meet(t *testing.T, s *gatewaytest.Server, name, revision, transport string) *person {
	t.Helper()
	p := &person{name: name}
	p.connect(t, s.SDKTransport(t, transport), revision, p.options())
	return p
}

func (p *person) connect(t *testing.T, transport mcp.Transport, revision string, options *mcp.ClientOptions) {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: p.name, Version: "1"}, options)
	if options.Capabilities == nil {
		client.AddRoots(&mcp.Root{URI: "file:///" + p.name})
	}
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	p.session = session
}

func (p *person) get(ctx context.Context, prompt string) (string, error) {
	params := &mcp.GetPromptParams{Name: prompt, Arguments: map[string]string{"who": p.name}}
	result, err := p.session.GetPrompt(ctx, params)
	if err != nil {
		return "", err
	}
	text, _ := result.Messages[0].Content.(*mcp.TextContent)
	return text.Text, nil
}

// serveRequesting serves a gateway with requesting upstreams, each with settings, of a team with
// further blocks.
func serveRequesting(t *testing.T, settings, blocks string, labels ...string) *gatewaytest.Server {
	t.Helper()
	var text strings.Builder
	for _, label := range labels {
		text.WriteString(requestingUpstream(t, label, settings))
	}
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", text.String()+blocks))
	upstreamtest.Eventually(t, "all prompts are listed", func() bool { return len(s.Modern("").List()) == 4*len(labels) })
	return s
}

// Each kind of server request, from a server of each era and transport, reaches a client of each era and transport.
func TestServerRequests_CrossErasAndTransports(t *testing.T) {
	t.Parallel()
	upstreams := []string{"http-legacy", "stdio-legacy", "sse-legacy", "http-modern", "stdio-modern"}
	s := serveRequesting(t, "", "", upstreams...)
	for _, down := range []struct{ revision, transport string }{
		{"2025-11-25", "http"},
		{"2025-06-18", "http"},
		{"2025-11-25", "stdio"},
		{"2025-06-18", "sse"},
		{"2025-03-26", "http"},
		{"2024-11-05", "stdio"},
		{"2024-11-05", "sse"},
		{gatewaytest.Latest, "http"},
		{gatewaytest.Latest, "stdio"},
	} {
		ann := meet(t, s, "ann", down.revision, down.transport)
		for _, up := range upstreams {
			t.Run(down.revision+" "+down.transport+" to "+up, func(t *testing.T) {
				for prompt, want := range map[string]string{"elicit": "accept ann", "sample": "ann", "roots": "file:///ann"} {
					got, err := ann.get(t.Context(), up+"."+prompt)
					if err != nil || got != "ann says "+want {
						t.Errorf("%s: %q, %v", prompt, got, err)
					}
				}
			})
		}
	}
}

// One server makes requests of 64 clients at once. Over stdio and HTTP+SSE its requests do not say which get they belong to.
func TestServerRequests_ReachOnlyTheClientOfTheirGet(t *testing.T) {
	t.Parallel()
	for _, up := range []string{"stdio-legacy", "sse-legacy", "http-legacy"} {
		t.Run(up, func(t *testing.T) {
			s := serveRequesting(t, "timeout = \"60s\"", "", up)
			var all sync.WaitGroup
			for i := range 32 {
				revision, transport := "2025-11-25", "http"
				switch i % 4 {
				case 1:
					transport = "stdio"
				case 2:
					revision = gatewaytest.Latest
				case 3:
					transport = "sse"
				}
				p := meet(t, s, fmt.Sprint("person", i), revision, transport)
				all.Go(func() {
					for range 3 {
						if got, err := p.get(t.Context(), up+".elicit"); err != nil || got != p.name+" says accept "+p.name {
							t.Errorf("%s got %q, %v", p.name, got, err)
						}
					}
					want := strings.TrimSuffix(strings.Repeat("Hello "+p.name+"; ", 3), "; ")
					upstreamtest.Equal(t, want, p.notes(), "%s received the server requests", p.name)
				})
			}
			all.Wait()
		})
	}
}

// Clients with equal progress tokens and different log levels make gets at once.
func TestRelay_PassesProgressAndLogMessages(t *testing.T) {
	t.Parallel()
	upstreams := []string{"http-legacy", "stdio-legacy", "sse-legacy", "http-modern", "stdio-modern"}
	s := serveRequesting(t, "timeout = \"30s\"", "", upstreams...)
	for _, down := range []struct{ revision, transport string }{
		{"2025-11-25", "http"}, {"2025-11-25", "stdio"}, {"2025-06-18", "sse"}, {gatewaytest.Latest, "http"}, {gatewaytest.Latest, "stdio"},
	} {
		for _, up := range upstreams {
			t.Run(down.revision+" "+down.transport+" to "+up, func(t *testing.T) {
				var all sync.WaitGroup
				for name, level := range map[string]mcp.LoggingLevel{"ann": "warning", "bob": "debug", "cid": ""} {
					p := meet(t, s, name, down.revision, down.transport)
					params := &mcp.GetPromptParams{Name: up + ".tell", Arguments: map[string]string{"who": name}}
					params.Meta = mcp.Meta{"progressToken": "same"}
					switch {
					case level == "":
					case down.revision == gatewaytest.Latest:
						params.Meta["io.modelcontextprotocol/logLevel"] = string(level)
					default:
						if err := p.session.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: level}); err != nil {
							t.Fatal(err)
						}
					}
					want := map[mcp.LoggingLevel]int{"": 0, "warning": 1, "debug": 2}[level]
					all.Go(func() {
						if _, err := p.session.GetPrompt(t.Context(), params); err != nil {
							t.Errorf("%s: %v", name, err)
						}
						upstreamtest.Eventually(t, name+" received the progress", func() bool { return strings.Contains(p.notes(), "progress for "+name+" as same") })
						for note := range strings.SplitSeq(p.notes(), "; ") {
							if !strings.Contains(note, " for "+name) {
								t.Errorf("%s received %q, which is for another client", name, note)
							}
						}
						upstreamtest.Equal(t, want, strings.Count(p.notes(), "log for"),
							"%s with log level %q received %q log messages", name, level, p.notes())
					})
				}
				all.Wait()
			})
		}
	}
}
