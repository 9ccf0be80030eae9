package main

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sdkGateway is a gateway in as few lines as the official SDK allows: a client session to the upstream, and a server that offers the
// upstream's prompts and forwards each get.
func sdkGateway(ctx context.Context, upstream string) (http.Handler, error) {
	implementation := &mcp.Implementation{Name: "sdk", Version: "1"}
	session, err := mcp.NewClient(implementation, nil).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: upstream, HTTPClient: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096}},
	}, nil)
	if err != nil {
		return nil, err
	}
	server := mcp.NewServer(implementation, nil)
	for prompt, err := range session.Prompts(ctx, nil) {
		if err != nil {
			return nil, err
		}
		server.AddPrompt(prompt, func(ctx context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return session.GetPrompt(ctx, &mcp.GetPromptParams{Name: r.Params.Name, Arguments: r.Params.Arguments})
		})
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{JSONResponse: true}), nil
}
