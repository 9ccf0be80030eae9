package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

// count lists the prompts of a server with the library's own call, and page by page, and prints how many each returned.
func count(ctx context.Context, target string) error {
	c, err := client.NewStreamableHttpClient(target)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Start(ctx); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	hello := mcp.InitializeRequest{}
	hello.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	hello.Params.ClientInfo = mcp.Implementation{Name: "promptweir-interop-mcpgo", Version: "1.0.0"}
	if _, err := c.Initialize(ctx, hello); err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	first, err := c.ListPrompts(ctx, mcp.ListPromptsRequest{})
	pages, byPage := drain(ctx, c)
	if err := errors.Join(err, byPage); err != nil {
		return err
	}
	all := 0
	for _, page := range pages {
		all += len(page)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]int{"first": len(first.Prompts), "all": all})
}
