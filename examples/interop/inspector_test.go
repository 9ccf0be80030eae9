package interop_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// TestInspector_ListsAndGets runs the Inspector's command line against the gateway, with each of its ways to choose an era.
func TestInspector_ListsAndGets(t *testing.T) {
	t.Parallel()
	names := []string{"sessions.greet", "stateless.greet"}
	gateway := startGateway(t, 1, newServer(t, false).upstream(), newServer(t, true).upstream())
	waitUntilListed(t, gateway, names)
	for _, era := range []string{"legacy", "auto", "modern"} {
		t.Run(era, func(t *testing.T) {
			inspect := func(to any, args ...string) {
				t.Helper()
				args = append([]string{
					installed(t, "mcp-inspector"), "--cli", gateway, "--transport", "http", "--protocol-era", era, "--method",
				}, args...)
				out, err := runNode(t, patience, args...)
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				if err := json.Unmarshal([]byte(out), to); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			var listed struct{ Prompts []struct{ Name string } }
			inspect(&listed, "prompts/list")
			var got []string
			for _, prompt := range listed.Prompts {
				got = append(got, prompt.Name)
			}
			if diff := cmp.Diff(names, got); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			var greeting struct {
				Messages []struct{ Content struct{ Text string } }
			}
			inspect(&greeting, "prompts/get", "--prompt-name", "sessions.greet", "--prompt-args", "name=Ada")
			if len(greeting.Messages) != 1 || greeting.Messages[0].Content.Text != "Hello, Ada!" {
				t.Errorf("sessions.greet: %+v, want Hello, Ada!", greeting.Messages)
			}
		})
	}
}

// shared is a gateway's configuration: pages of one origin may use it, with a token.
const shared = `
gateway {
  listen          = "127.0.0.1:0"
  allowed_origins = [%q]
}
admin { listen = "127.0.0.1:0" }
auth {
  token "page" {
    sha256 = "%x"
    groups = ["eng"]
  }
}
team "eng" {
  members = ["group:eng"]
  %s
}
`

// TestInspector_ConnectsDirectlyFromAllowedOrigins opens the Inspector's page in a browser, which holds it to CORS: the page
// lists, gets and hears of a change where its origin is allowed, and otherwise does not even connect.
func TestInspector_ConnectsDirectlyFromAllowedOrigins(t *testing.T) {
	t.Parallel()
	takesLong(t)
	const token = "token-of-a-page"
	allowed, other := startInspectorPage(t), startInspectorPage(t)
	server, dir := newServer(t, false), t.TempDir()
	proctest.Build(t, dir, "./cmd/promptweir")
	file := filepath.Join(dir, "gateway.hcl")
	text := fmt.Appendf(nil, shared, allowed, sha256.Sum256([]byte(token)), server.upstream())
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	gateway := proctest.Start(t, dir, filepath.Join(dir, "promptweir"), "serve", "--config", file).Attr(t, "endpoint")

	type outcome struct {
		Error   string
		Prompts []string
		Got     string
	}
	connect := func(t *testing.T, page, endpoint, transport string, change func()) (o outcome) {
		t.Helper()
		out := play(t, []string{"node", "inspector.mjs", browser(t), page, endpoint, transport, token, "sessions.greet", "name", "Ada"}, change)
		if err := json.Unmarshal(out, &o); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return o
	}
	for transport, endpoint := range map[string]string{
		"streamable-http": gateway, "sse": strings.TrimSuffix(gateway, "/mcp") + "/sse",
	} {
		t.Run(transport, func(t *testing.T) {
			o := connect(t, allowed, endpoint, transport, func() { server.add("added_for_" + transport) })
			if o.Error != "" || !slices.Contains(o.Prompts, "sessions.greet") || !strings.Contains(o.Got, "Hello, Ada!") {
				t.Errorf("from the allowed origin: %+v", o)
			}
			o = connect(t, other, endpoint, transport, func() { t.Error("a page of another origin could list and get") })
			if !strings.Contains(o.Error, "Connection failed") {
				t.Errorf("from another origin: %+v", o)
			}
		})
	}
}

// startInspectorPage serves the Inspector's page and returns its origin.
func startInspectorPage(t *testing.T) string {
	t.Helper()
	dir := filepath.Join("node_modules", "@modelcontextprotocol", "inspector-client", "dist")
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("%v: run make interop, which installs it", err)
	}
	page := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(page.Close)
	return page.URL
}
