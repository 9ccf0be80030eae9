// Package interop_test puts third-party MCP servers behind the gateway and third-party clients in front of it. The servers are
// one from npm over stdio and behind npm's mcp-proxy, the Go SDK's over HTTP in both eras, and, of servers that speak both, the
// TypeScript SDK's and mark3labs/mcp-go's. The clients are both generations of the TypeScript SDK, mark3labs/mcp-go and the Inspector, from its command
// line and in a browser, and Claude Code, Codex, Gemini CLI and opencode with a stub of their models. (The gateway's own tests use the
// Go SDK's client at every revision.) A certified OpenID provider from npm issues tokens, and the TypeScript SDK discovers it.
//
// The package also runs the official conformance suite against both sides, opens the admin page in a browser, puts HAProxy and nginx
// in front of gateways and servers, and sends telemetry to an OpenTelemetry collector. It needs Node 22.19 or later, npm ci in this
// folder, Chromium, HAProxy and nginx.
package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// patience bounds the run of one client.
const patience = time.Minute

// settings is the gateway's configuration. Its pages are so small that every client has to ask for several, unless a test wants
// those of the default.
const settings = `
gateway {
  listen = "127.0.0.1:0"
  %s
}
admin { listen = "127.0.0.1:0" }

team "interop" {
  %s
}
`

// takesLong skips a test in CI, where tests run with -short. Other tests have shown the gateway's part with quicker clients.
func takesLong(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long: run it with make interop")
	}
}

func TestInterop_ClientsAndServers(t *testing.T) {
	t.Parallel()
	sessions, stateless := newServer(t, false), newServer(t, true)
	everything := fmt.Sprintf("upstream \"everything\" { command = [%q, \"stdio\"] }", installed(t, "mcp-server-everything"))
	endpoint := startGateway(t, 2, everything, sessions.upstream(), stateless.upstream())
	mcpgo := buildMcpgo(t)
	names := []string{
		"everything.args-prompt", "everything.completable-prompt", "everything.resource-prompt", "everything.simple-prompt",
		"sessions.greet", "stateless.greet",
	}
	waitUntilListed(t, endpoint, names)

	for _, client := range []struct {
		name, revision string
		program        []string
		mode           string
	}{
		{"sdk1", "2025-11-25", []string{"node", "sdk1.mjs"}, ""},
		{"client2-legacy", "2025-11-25", []string{"node", "client2.mjs"}, "legacy"},
		{"client2-auto", "2026-07-28", []string{"node", "client2.mjs"}, "auto"},
		{"client2-pinned", "2026-07-28", []string{"node", "client2.mjs"}, "2026-07-28"},
		{"mcpgo", "2026-07-28", []string{mcpgo}, "http"},
		{"mcpgo-sessions", "2025-11-25", []string{mcpgo}, "sessions"},
	} {
		for _, server := range []*server{sessions, stateless} {
			t.Run(client.name+"/"+server.prefix, func(t *testing.T) {
				added := "added_for_" + client.name
				got := drive(t, slices.Concat(client.program, []string{endpoint, work, client.mode}), func() { server.add(added) })
				want := result{
					Revision:  client.revision,
					Pages:     slices.Collect(slices.Chunk(names, 2)),
					Got:       []string{"What's weather in Oslo, Norway?", "Hello, Ada!", "Hello, Grace!"},
					Completed: [][]string{{"Engineering"}, {"Ada", "Alan"}, {"Grace"}},
				}
				names = slices.Sorted(slices.Values(append(slices.Clone(names), server.prefix+"."+added)))
				want.Changed = names
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("what the client saw (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestInterop_OverStdio has a client start the gateway as its server. It may then be asked for a list before its upstreams have
// answered, and waits for them a while.
func TestInterop_OverStdio(t *testing.T) {
	sessions, stateless := newServer(t, false), newServer(t, true)
	dir := t.TempDir()
	proctest.Build(t, dir, "./cmd/promptweir")
	target, err := json.Marshal([]string{
		filepath.Join(dir, "promptweir"), "stdio", "--config", configure(t, 1, sessions.upstream(), stateless.upstream()),
	})
	if err != nil {
		t.Fatal(err)
	}
	todo := `{"get": [{"name": "stateless.greet", "arguments": {"name": "Grace"}}], "complete": [
		{"ref": {"type": "ref/prompt", "name": "sessions.greet"}, "argument": {"name": "name", "value": "A"}}
	]}`
	got := drive(t, []string{buildMcpgo(t), string(target), todo, "stdio"}, func() { sessions.add("added") })
	want := result{
		Revision: "2026-07-28", Pages: [][]string{{"sessions.greet"}, {"stateless.greet"}}, Got: []string{"Hello, Grace!"},
		Completed: [][]string{{"Ada", "Alan"}}, Changed: []string{"sessions.added", "sessions.greet", "stateless.greet"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the client saw (-want +got):\n%s", diff)
	}
}

// TestInterop_EverythingExample runs examples/everything unchanged. npx finds the pinned server that is installed here;
// elsewhere it would fetch it.
func TestInterop_EverythingExample(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	proctest.Build(t, filepath.Join(dir, "bin"), "./cmd/promptweir", "./examples/servers/reviews")
	proctest.CopyExample(t, filepath.Join(dir, "everything"), "everything")
	installed, err := filepath.Abs("node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(installed, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	gateway := proctest.Start(t, dir, filepath.Join(dir, "bin", "promptweir"), "serve", "--config", "everything")
	waitUntilListed(t, gateway.Attr(t, "endpoint"), []string{
		"everything.args-prompt", "everything.completable-prompt", "everything.resource-prompt", "everything.simple-prompt",
		"reviews.code_review", "reviews.commit_message",
	})
}

// work has the gets and completions of each client, from all three servers.
const work = `{
	"get": [
		{"name": "everything.args-prompt", "arguments": {"city": "Oslo", "state": "Norway"}},
		{"name": "sessions.greet", "arguments": {"name": "Ada"}},
		{"name": "stateless.greet", "arguments": {"name": "Grace"}}
	],
	"complete": [
		{"ref": {"type": "ref/prompt", "name": "everything.completable-prompt"}, "argument": {"name": "department", "value": "E"}},
		{"ref": {"type": "ref/prompt", "name": "sessions.greet"}, "argument": {"name": "name", "value": "A"}},
		{"ref": {"type": "ref/prompt", "name": "stateless.greet"}, "argument": {"name": "name", "value": "G"}}
	]
}`

// result is what a client saw.
type result struct {
	Revision  string
	Pages     [][]string // the names, page by page
	Got       []string   // the texts of the prompts
	Completed [][]string
	Changed   []string // the names after the change
}

// drive runs a client, calls change once it is subscribed, and returns its output.
func drive(t *testing.T, command []string, change func()) result {
	t.Helper()
	out := play(t, command, change)
	var printed struct {
		result
		Got []struct {
			Messages []struct{ Content struct{ Text string } }
		}
	}
	if err := json.Unmarshal(out, &printed); err != nil {
		t.Fatalf("what %q printed: %v\n%s", command, err, out)
	}
	for _, got := range printed.Got {
		for _, message := range got.Messages {
			printed.result.Got = append(printed.result.Got, message.Content.Text)
		}
	}
	return printed.result
}

// play runs a program, calls change once it has printed READY, and returns what else it prints.
func play(t *testing.T, command []string, change func()) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	first, readErr := lines.ReadString('\n')
	if first == "READY\n" {
		change()
		first = ""
	}
	rest, outErr := io.ReadAll(lines)
	out := append([]byte(first), rest...)
	if err := cmd.Wait(); err != nil || readErr != nil || outErr != nil {
		t.Fatalf("%q: %v, %v, %v\n%s%s", command, err, readErr, outErr, out, stderr.String())
	}
	return out
}

// startGateway runs the gateway in front of the servers and returns its endpoint.
func startGateway(t *testing.T, pageSize int, upstreams ...string) string {
	t.Helper()
	dir := t.TempDir()
	proctest.Build(t, dir, "./cmd/promptweir")
	file := configure(t, pageSize, upstreams...)
	return proctest.Start(t, dir, filepath.Join(dir, "promptweir"), "serve", "--config", file).Attr(t, "endpoint")
}

// defaultPages stands for pages of the size that nobody configured.
const defaultPages = 0

// configure writes the gateway's configuration, with upstream blocks, and returns its path.
func configure(t *testing.T, pageSize int, upstreams ...string) string {
	t.Helper()
	pages := ""
	if pageSize != defaultPages {
		pages = fmt.Sprintf("page_size = %d", pageSize)
	}
	file := filepath.Join(t.TempDir(), "gateway.hcl")
	text := fmt.Appendf(nil, settings, pages, strings.Join(upstreams, "\n  "))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// buildMcpgo builds the client in mcpgo, and returns the program's path.
func buildMcpgo(t *testing.T) string {
	t.Helper()
	return buildHere(t, "mcpgo")
}

// buildHere builds the program in a folder of this module, and returns its path.
func buildHere(t *testing.T, folder string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), folder)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, ".")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build in %s: %v\n%s", folder, err, out)
	}
	return program
}

// installed returns the path of a program that npm installed in this folder.
func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("node_modules", ".bin", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run make interop, which installs it", err)
	}
	return path
}

// waitUntilListed returns once the prompts of all servers are listed.
func waitUntilListed(t *testing.T, endpoint string, want []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	changed := make(chan struct{}, 1)
	client := mcp.NewClient(&mcp.Implementation{Name: "promptweir-interop", Version: "1.0.0"}, &mcp.ClientOptions{
		PromptListChangedHandler: func(context.Context, *mcp.PromptListChangedRequest) {
			select {
			case changed <- struct{}{}:
			default:
			}
		},
	})
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: endpoint}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for {
		var got []string
		for prompt, err := range session.Prompts(ctx, nil) {
			if err != nil { // where none of the servers is listed yet
				got = []string{err.Error()}
				break
			}
			got = append(got, prompt.Name)
		}
		diff := cmp.Diff(want, got)
		if diff == "" {
			return
		}
		select {
		case <-changed:
		case <-time.After(100 * time.Millisecond): // the client may have missed it: its stream opens later than its session
		case <-ctx.Done():
			t.Fatalf("names after %s (-want +got):\n%s", patience, diff)
		}
	}
}

// server is a server of the Go SDK over HTTP, for one era: without sessions, the modern one.
type server struct {
	prefix  string // of its prompts behind the gateway
	url     string
	prompts *mcp.Server
}

func newServer(t *testing.T, stateless bool) *server {
	t.Helper()
	s := &server{prefix: "sessions"}
	if stateless {
		s.prefix = "stateless"
	}
	s.prompts = mcp.NewServer(&mcp.Implementation{Name: s.prefix, Version: "1.0.0"}, &mcp.ServerOptions{
		CompletionHandler: func(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			names := slices.DeleteFunc([]string{"Ada", "Alan", "Grace"}, func(name string) bool {
				return !strings.HasPrefix(name, req.Params.Argument.Value)
			})
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: names}}, nil
		},
	})
	s.prompts.AddPrompt(&mcp.Prompt{
		Name:      "greet",
		Arguments: []*mcp.PromptArgument{{Name: "name", Required: true}},
	}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		text := fmt.Sprintf("Hello, %s!", req.Params.Arguments["name"])
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}, nil
	})
	listener := httptest.NewServer(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return s.prompts },
		&mcp.StreamableHTTPOptions{Stateless: stateless},
	))
	// Streams of notifications are still open: cut them, or Close would wait for them.
	t.Cleanup(func() {
		listener.CloseClientConnections()
		listener.Close()
	})
	s.url = listener.URL
	return s
}

// upstream returns the server's block in the gateway's configuration.
func (s *server) upstream() string { return fmt.Sprintf("upstream %q { url = %q }", s.prefix, s.url) }

// add adds a prompt, which changes the list.
func (s *server) add(name string) {
	s.prompts.AddPrompt(&mcp.Prompt{Name: name}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{}, nil
	})
}
