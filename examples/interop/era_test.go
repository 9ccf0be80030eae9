package interop_test

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestInterop_ServersOfBothEras gets prompts that ask the client, from servers that speak both eras and would answer a client that
// connects to them directly in the era of their handlers. The Go SDK's server is in the tests of package upstream.
func TestInterop_ServersOfBothEras(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("asks.mjs")
	if err != nil {
		t.Fatal(err)
	}
	endpoint := startGateway(t, 100,
		fmt.Sprintf("upstream \"ts_stdio\" { command = [\"node\", %q, \"stdio\"] }", script),
		// As slow to start as npx: initialize is on its way when the probe is answered. A get waits for the start of the session in
		// which its client can be asked, but for half of the timeout only.
		fmt.Sprintf("upstream \"ts_slow\" {\n command = [\"sh\", \"-c\", %q]\n timeout = \"1m\"\n}", "sleep 4; exec node '"+script+"' stdio"),
		fmt.Sprintf("upstream \"ts_http\" { url = %q }", serveScript(t, script, "http")),
		fmt.Sprintf("upstream \"mcpgo\" { command = [%q, \"serve\"] }", buildMcpgo(t)))
	waitUntilListed(t, endpoint, []string{
		"mcpgo.pushed", "ts_http.pushed", "ts_http.required", "ts_slow.pushed", "ts_slow.required", "ts_stdio.pushed", "ts_stdio.required",
	})

	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		client := mcp.NewClient(&mcp.Implementation{Name: "ada", Version: "1"}, &mcp.ClientOptions{
			ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
			},
		})
		session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: endpoint}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"ts_stdio.pushed", "ts_stdio.required", "ts_slow.pushed", "ts_http.required", "mcpgo.pushed"} {
			for range 2 { // first learned, then known
				got, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: name})
				if err != nil {
					t.Errorf("%s: %s: %v", revision, name, err)
					continue
				}
				if text, ok := got.Messages[0].Content.(*mcp.TextContent); !ok || text.Text != "Hello, Ada!" {
					t.Errorf("%s: %s = %+v", revision, name, got.Messages[0].Content)
				}
			}
		}
		// Over HTTP the SDK's default has no sessions, so that its handlers can push in no era. What it says stands.
		_, err = session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "ts_http.pushed"})
		if err == nil || !strings.Contains(err.Error(), "Server-to-client requests are not available on protocol revision 2026-07-28") {
			t.Errorf("%s: ts_http.pushed: %v, want the SDK's refusal", revision, err)
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}
}

// serveScript runs a server until the test ends, and returns the address that it prints.
func serveScript(t *testing.T, script string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", append([]string{script}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // it is killed at the end of the test
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(address)
}
