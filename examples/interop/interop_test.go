//go:build interop

// Package interop_test puts real MCP servers behind the gateway and real MCP clients in front of it,
// none of them ours: a server from npm over stdio, the Go SDK's server over HTTP in both eras, and the
// two generations of the TypeScript SDK as clients. It needs Node, and npm ci in this folder.
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

// patience bounds what one client does, from its start to its end.
const patience = time.Minute

// settings is the gateway's configuration: pages so small that every client has to ask for several.
const settings = `
gateway {
  listen    = "127.0.0.1:0"
  page_size = 2
}
admin { listen = "127.0.0.1:0" }

team "interop" {
  upstream "everything" { command = [%q, "stdio"] }
  upstream "sessions" { url = %q }
  upstream "stateless" { url = %q }
}
`

func TestClientsAndServers(t *testing.T) {
	sessions, stateless := newServer(t, false), newServer(t, true)
	endpoint := startGateway(t, sessions.url, stateless.url)
	names := []string{
		"everything.args-prompt", "everything.completable-prompt", "everything.resource-prompt", "everything.simple-prompt",
		"sessions.greet", "stateless.greet",
	}
	waitUntilListed(t, endpoint, names)

	for _, client := range []struct {
		name, revision string
		command        []string // the script, and its mode
	}{
		{"sdk1", "2025-11-25", []string{"sdk1.mjs"}},
		{"client2-legacy", "2025-11-25", []string{"client2.mjs", "legacy"}},
		{"client2-auto", "2026-07-28", []string{"client2.mjs", "auto"}},
		{"client2-pinned", "2026-07-28", []string{"client2.mjs", "2026-07-28"}},
	} {
		for _, server := range []*server{sessions, stateless} {
			t.Run(client.name+"/"+server.prefix, func(t *testing.T) {
				added := "added_for_" + client.name
				got := drive(t, endpoint, client.command, func() { server.add(added) })
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

// TestEverythingExample runs examples/everything as it is: npx finds the pinned server that is installed
// here, and would fetch it elsewhere.
func TestEverythingExample(t *testing.T) {
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

// work is what each client asks for: prompts and completions of all three servers.
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

// drive runs a client's script, calls change when it is subscribed, and returns what it printed.
func drive(t *testing.T, endpoint string, command []string, change func()) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", slices.Concat(command[:1], []string{endpoint, work}, command[1:])...)
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
	ready, readErr := lines.ReadString('\n')
	if ready == "READY\n" {
		change()
	}
	out, outErr := io.ReadAll(lines)
	if err := cmd.Wait(); err != nil || readErr != nil || outErr != nil {
		t.Fatalf("node %q: %v, %v, %v\n%s%s%s", command, err, readErr, outErr, ready, out, stderr.String())
	}

	var printed struct {
		result
		Got []struct {
			Messages []struct{ Content struct{ Text string } }
		}
	}
	if err := json.Unmarshal(out, &printed); err != nil {
		t.Fatalf("what node %q printed: %v\n%s", command, err, out)
	}
	for _, got := range printed.Got {
		for _, message := range got.Messages {
			printed.result.Got = append(printed.result.Got, message.Content.Text)
		}
	}
	return printed.result
}

// startGateway runs the gateway in front of the servers and returns its endpoint.
func startGateway(t *testing.T, sessions, stateless string) string {
	t.Helper()
	everything, err := filepath.Abs(filepath.Join("node_modules", ".bin", "mcp-server-everything"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(everything); err != nil {
		t.Fatalf("%v: run make interop, which installs it", err)
	}
	dir := t.TempDir()
	proctest.Build(t, dir, "./cmd/promptweir")
	file := filepath.Join(dir, "gateway.hcl")
	if err := os.WriteFile(file, fmt.Appendf(nil, settings, everything, sessions, stateless), 0o600); err != nil {
		t.Fatal(err)
	}
	return proctest.Start(t, dir, filepath.Join(dir, "promptweir"), "serve", "--config", file).Attr(t, "endpoint")
}

// waitUntilListed returns when all servers have joined.
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
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, prompt.Name)
		}
		diff := cmp.Diff(want, got)
		if diff == "" {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("names after %s (-want +got):\n%s", patience, diff)
		}
	}
}

// A server is one of the Go SDK over HTTP, of one era: without sessions it serves the later one.
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

// add adds a prompt, and so changes the list.
func (s *server) add(name string) {
	s.prompts.AddPrompt(&mcp.Prompt{Name: name}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{}, nil
	})
}
