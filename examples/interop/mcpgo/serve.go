package main

import (
	"context"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// serve runs a server of both eras over stdio. Its prompt "pushed" asks the client for a name as in the legacy era.
func serve() error {
	s := server.NewMCPServer("promptweir-interop-mcpgo", "1.0.0", server.WithPromptCapabilities(true), server.WithElicitation())
	s.AddPrompt(mcp.NewPrompt("pushed"), func(ctx context.Context, _ mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		reply, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{
			Message: "Who?",
			RequestedSchema: map[string]any{
				"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}, "required": []string{"name"},
			},
		}})
		if err != nil {
			return nil, err
		}
		content, _ := reply.Content.(map[string]any)
		text := mcp.NewTextContent(fmt.Sprintf("Hello, %s!", content["name"]))
		return mcp.NewGetPromptResult("", []mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, text)}), nil
	})
	return server.ServeStdio(s)
}
