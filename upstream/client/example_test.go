package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A session hides which revision and transport a server has.
func ExampleConnect() {
	server := upstreamtest.SDK(mcp.ServerOptions{}, "review", "greet")
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	listener := httptest.NewServer(handler)
	defer listener.Close()

	ctx := context.Background()
	session, err := client.Connect(ctx, config.Upstream{
		Name: "docs", Transport: config.StreamableHTTP, URL: listener.URL, Protocol: "auto",
		Timeout: 10 * time.Second, Concurrency: 1, MaxMessage: 1 << 20,
	}, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	list, err := session.List(ctx, 100)
	fmt.Println(session.Revision, len(list.Definitions), err)

	params := wire.Object{}.With("name", wire.Quote("greet"))
	result, err := session.Call(ctx, &client.Request{Method: wire.PromptsGet, Name: "greet", Params: params}, nil)
	fmt.Printf("%s %v\n", result.JSON, err)
	// Output:
	// 2025-11-25 2 <nil>
	// {"messages":[{"content":{"type":"text","text":"greet: "},"role":"user"}]} <nil>
}
