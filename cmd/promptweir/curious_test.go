package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"
)

// form is the form of a curious server.
const form = `{"type": "object", "required": ["name", "age"], "properties": {
	"name": {"type": "string", "title": "Your name"},
	"age": {"type": "integer"},
	"colour": {"type": "string", "enum": ["red", "green"], "default": "green"},
	"coming": {"type": "boolean", "description": "To the party."},
	"days": {"type": "array", "items": {"anyOf": [{"const": "sat", "title": "Saturday"}, {"const": "sun", "title": "Sunday"}]}}
}}`

// newCurious returns an MCP server with these prompts: invitation, which asks the client for a form; visit,
// which asks it to open an address; picture, which has an image and a sound; and letter, which requires two
// arguments and completes them.
func newCurious() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "curious", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			var values []string
			for _, value := range []string{"Ada", "Adam", "Grace"} {
				if strings.HasPrefix(value, r.Params.Argument.Value) {
					values = append(values, value)
				}
			}
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: values}}, nil
		},
	})
	asking := func(params *mcp.ElicitParams) mcp.PromptHandler {
		return func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			if r.Params.InputResponses == nil {
				return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{"it": params}}, nil
			}
			reply, err := json.Marshal(r.Params.InputResponses["it"])
			return textResult(string(reply)), err
		}
	}
	server.AddPrompt(&mcp.Prompt{Name: "invitation"}, asking(&mcp.ElicitParams{
		Mode: "form", Message: "Who are you?", RequestedSchema: json.RawMessage(form),
	}))
	server.AddPrompt(&mcp.Prompt{Name: "visit"}, asking(&mcp.ElicitParams{
		Mode: "url", Message: "Log in.", URL: "https://login.example.com/x", ElicitationID: "1",
	}))
	server.AddPrompt(&mcp.Prompt{Name: "picture"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{
			{Role: "user", Content: &mcp.TextContent{Text: "Look:"}},
			{Role: "user", Content: &mcp.ImageContent{Data: []byte("\x89PNG"), MIMEType: "image/png"}},
			{Role: "user", Content: &mcp.AudioContent{Data: []byte("RIFF"), MIMEType: "audio/wav"}},
			{Role: "user", Content: &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///x", Blob: []byte{1, 2}}}},
		}}, nil
	})
	server.AddPrompt(&mcp.Prompt{Name: "letter", Arguments: []*mcp.PromptArgument{
		{Name: "from", Description: "Who writes.", Required: true}, {Name: "to", Required: true}, {Name: "tone"},
	}}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return textResult(fmt.Sprintf("from %s to %s", r.Params.Arguments["from"], r.Params.Arguments["to"])), nil
	})
	return server
}

func textResult(text string) *mcp.GetPromptResult {
	return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}
}

// curious serves over standard input and output.
func curious() {
	if err := newCurious().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// MODERN is a curious server without sessions, LEGACY one with sessions and an older revision.
func TestGet_AsksNobody(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/get", RequireExplicitExec: true, UpdateScripts: os.Getenv("UPDATE") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		Setup: func(env *testscript.Env) error {
			for name, modern := range map[string]bool{"MODERN": true, "LEGACY": false} {
				curious := newCurious()
				server := httptest.NewServer(mcp.NewStreamableHTTPHandler(
					func(*http.Request) *mcp.Server { return curious }, &mcp.StreamableHTTPOptions{Stateless: modern}))
				env.Defer(func() {
					server.CloseClientConnections()
					server.Close()
				})
				env.Setenv(name, server.URL)
			}
			return setup(env)
		},
	})
}
