package interop_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// many is how many prompts there are: more than a page of the default size has, and more than two.
const many = 2500

// listed is how many prompts a client got: with the call that its author would make without a thought of pages, and by way of
// pages.
type listed struct{ First, All int }

// TestPages_ClientsGetAThousandInTheirFirstCall runs each client's own call for a list of prompts, which in many clients is all
// that they ever make, against a gateway with more prompts than a page has.
func TestPages_ClientsGetAThousandInTheirFirstCall(t *testing.T) {
	t.Parallel()
	takesLong(t)
	server := newServerOfMany(t)
	page := startInspectorPage(t)
	endpoint := startGatewayFor(t, page, fmt.Sprintf("upstream %q { url = %q }", "many", server))
	names := make([]string, many)
	for i := range names {
		names[i] = fmt.Sprintf("many.p%04d", i)
	}
	waitUntilListed(t, endpoint, names)

	mcpgo := buildMcpgo(t)
	inspector := installed(t, "mcp-inspector")
	for _, client := range []struct {
		name string
		list func(t *testing.T) listed
		want listed
	}{
		{"TypeScript SDK 1.x", counts("node", "first_call.mjs", "sdk1", endpoint), listed{1000, many}},
		{"TypeScript SDK 2.x", counts("node", "first_call.mjs", "client2", endpoint), listed{many, many}},
		{"mcp-go", counts(mcpgo, "count", endpoint), listed{many, many}},
		{"go-sdk", func(t *testing.T) listed { return countGoSDK(t, endpoint) }, listed{1000, many}},
		{"Inspector, legacy", func(t *testing.T) listed { return countInspector(t, inspector, endpoint, "legacy") }, listed{many, many}},
		{"Inspector, modern", func(t *testing.T) listed { return countInspector(t, inspector, endpoint, "modern") }, listed{many, many}},
		{"Inspector 1.0, page", counts("node", "inspector_count.mjs", browser(t), page, endpoint), listed{1000, many}},
	} {
		t.Run(client.name, func(t *testing.T) {
			if got := client.list(t); got != client.want {
				t.Errorf("got %d prompts in its first call and %d by way of pages, want %d and %d", got.First, got.All, client.want.First, client.want.All)
			}
		})
	}
}

// startGatewayFor runs the gateway with pages of the default size, which web pages of an origin may use, and returns its endpoint.
func startGatewayFor(t *testing.T, origin, upstream string) string {
	t.Helper()
	dir := t.TempDir()
	proctest.Build(t, dir, "./cmd/promptweir")
	file := filepath.Join(dir, "gateway.hcl")
	if err := os.WriteFile(file, fmt.Appendf(nil, settings, fmt.Sprintf("allowed_origins = [%q]", origin), upstream), 0o600); err != nil {
		t.Fatal(err)
	}
	return proctest.Start(t, dir, filepath.Join(dir, "promptweir"), "serve", "--config", file).Attr(t, "endpoint")
}

// newServerOfMany returns the address of an MCP server with many prompts.
func newServerOfMany(t *testing.T) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "many", Version: "1.0.0"}, nil)
	for i := range many {
		server.AddPrompt(&mcp.Prompt{Name: fmt.Sprintf("p%04d", i), Description: "One of many."}, nil)
	}
	listener := httptest.NewServer(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true},
	))
	t.Cleanup(func() {
		listener.CloseClientConnections()
		listener.Close()
	})
	return listener.URL
}

// counts returns a function that runs a program which prints what it listed.
func counts(command ...string) func(t *testing.T) listed {
	return func(t *testing.T) (got listed) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
		if err == nil {
			err = json.Unmarshal(out, &got)
		}
		if err != nil {
			t.Fatalf("%q: %v\n%s", command, err, out)
		}
		return got
	}
}

func countGoSDK(t *testing.T, endpoint string) (got listed) {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "promptweir-interop", Version: "1.0.0"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: endpoint}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	first, err := session.ListPrompts(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got.First = len(first.Prompts)
	for _, err := range session.Prompts(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		got.All++
	}
	return got
}

// countInspector lists with the Inspector's command line, which walks the pages by itself.
func countInspector(t *testing.T, inspector, endpoint, era string) listed {
	t.Helper()
	out, err := runNode(t, patience, inspector, "--cli", endpoint, "--transport", "http", "--protocol-era", era, "--method", "prompts/list")
	var result struct{ Prompts []json.RawMessage }
	if err == nil {
		err = json.Unmarshal([]byte(out), &result)
	}
	if err != nil {
		t.Fatalf("%v\n%.1000s", err, out)
	}
	return listed{len(result.Prompts), len(result.Prompts)}
}
