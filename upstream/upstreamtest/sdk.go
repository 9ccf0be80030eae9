package upstreamtest

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// SDK returns a server of the official Go SDK with the named prompts, two on each page. A get
// returns the prompt's name and arguments as text, a completion returns the value doubled.
func SDK(options mcp.ServerOptions, names ...string) *mcp.Server {
	options.PageSize = 2
	options.CompletionHandler = func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
		value := r.Params.Argument.Value
		return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{value + value}}}, nil
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, &options)
	for _, name := range names {
		AddPrompt(server, name)
	}
	return server
}

// AddPrompt adds a prompt to a server made by [SDK], which notifies its clients.
func AddPrompt(server *mcp.Server, name string) {
	prompt := &mcp.Prompt{Name: name, Description: "about " + name, Arguments: []*mcp.PromptArgument{{Name: "topic"}}}
	server.AddPrompt(prompt, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		text := fmt.Sprintf("%s: %s", name, r.Params.Arguments["topic"])
		return &mcp.GetPromptResult{
			Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}},
		}, nil
	})
}
