package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// seenLink is what a client saw of the link in a prompt's result.
type seenLink struct {
	URI, Read, Text string
	// Same is set if the same get gave the same again, and Resources if the gateway declares them.
	Same, Resources bool
	// Unknown is the code of the error for a link that nobody has.
	Unknown int64
}

// TestLinks_ThroughABalancerAndThreeReplicas has clients read the links of two servers with equal URIs, each request at another
// replica. The replicas share nothing but their cursor keys.
func TestLinks_ThroughABalancerAndThreeReplicas(t *testing.T) {
	t.Parallel()
	takesLong(t)
	endpoint := startLinked(t)
	waitUntilListed(t, endpoint, []string{"sessions.link", "stateless.link"})
	clients := map[string]func(t *testing.T) []seenLink{
		"go-sdk 2025-06-18": func(t *testing.T) []seenLink { t.Helper(); return readByGoSDK(t, endpoint, "2025-06-18") },
		"go-sdk 2026-07-28": func(t *testing.T) []seenLink { t.Helper(); return readByGoSDK(t, endpoint, "2026-07-28") },
		"Inspector 2025":    func(t *testing.T) []seenLink { t.Helper(); return readByInspector(t, endpoint, "legacy") },
		"Inspector 2026":    func(t *testing.T) []seenLink { t.Helper(); return readByInspector(t, endpoint, "modern") },
	}
	for _, mode := range []string{"v1", "legacy", "2026-07-28"} {
		clients["TypeScript SDK "+mode] = func(t *testing.T) (seen []seenLink) {
			t.Helper()
			out, err := runNode(t, patience, "links.mjs", endpoint, mode, "sessions.link", "stateless.link")
			if err == nil {
				err = json.Unmarshal([]byte(out), &seen)
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			return seen
		}
	}
	var uris [2]string
	for name, read := range clients {
		t.Run(name, func(t *testing.T) {
			seen := read(t)
			if len(seen) != 2 {
				t.Fatalf("%+v", seen)
			}
			code := int64(-32002)
			if strings.Contains(name, "2026") || name == "TypeScript SDK legacy" { // which has the newer code for both
				code = -32602
			}
			for i, server := range []string{"sessions", "stateless"} {
				got := seen[i]
				if uris[i] == "" {
					uris[i] = got.URI
				}
				if want := (seenLink{uris[i], uris[i], "the guide of " + server, true, true, code}); got != want {
					t.Errorf("%s: %+v, want %+v", server, got, want)
				}
			}
		})
	}
	for i, prefix := range []string{"promptweir://sessions/", "promptweir://stateless/"} {
		if !strings.HasPrefix(uris[i], prefix) || !strings.HasSuffix(uris[i], "/guide.md") {
			t.Errorf("the link is %s", uris[i])
		}
	}
}

// startLinked starts two servers and three gateways in front of them, and returns the endpoint of a balancer that sends each
// request to the next one.
func startLinked(t *testing.T) string {
	t.Helper()
	var upstreams strings.Builder
	for _, stateless := range []bool{false, true} {
		s := newServer(t, stateless)
		const uri = "file:///guide.md"
		s.prompts.RemovePrompts("greet")
		s.prompts.AddPrompt(&mcp.Prompt{Name: "link"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.ResourceLink{URI: uri, Name: "guide"}}}}, nil
		})
		s.prompts.AddResource(&mcp.Resource{URI: uri, Name: "guide"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "text/markdown", Text: "the guide of " + s.prefix}}}, nil
		})
		fmt.Fprintf(&upstreams, "upstream %q {\n url = %q\n resources = \"linked\"\n}\n", s.prefix, s.url)
	}
	dir := t.TempDir()
	proctest.Build(t, dir, "./cmd/promptweir")
	text := fmt.Sprintf(settings, `cursor_keys = ["MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="]`, upstreams.String())
	if err := os.WriteFile(filepath.Join(dir, "gateway.hcl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var replicas []*url.URL
	for range 3 {
		gateway := proctest.Start(t, dir, filepath.Join(dir, "promptweir"), "serve", "--config", "gateway.hcl")
		address, err := url.Parse(gateway.Attr(t, "endpoint"))
		if err != nil {
			t.Fatal(err)
		}
		waitUntilListed(t, address.String(), []string{"sessions.link", "stateless.link"})
		address.Path = ""
		replicas = append(replicas, address)
	}
	var turn atomic.Uint64
	balancer := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(replicas[turn.Add(1)%3])
	}})
	t.Cleanup(func() {
		balancer.CloseClientConnections() // their streams are still open
		balancer.Close()
	})
	return balancer.URL + "/mcp"
}

func readByGoSDK(t *testing.T, endpoint, revision string) (seen []seenLink) {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "ada", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: endpoint}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for _, name := range []string{"sessions.link", "stateless.link"} {
		var links []string
		for range 2 {
			got, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: name})
			if err != nil {
				t.Fatal(err)
			}
			link, ok := got.Messages[0].Content.(*mcp.ResourceLink)
			if !ok {
				t.Fatalf("%s has %+v", name, got.Messages[0].Content)
			}
			links = append(links, link.URI)
		}
		read, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: links[0]})
		if err != nil {
			t.Fatal(err)
		}
		_, err = session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: strings.Replace(links[0], "://", "://x", 1)})
		refusal, _ := errors.AsType[*jsonrpc.Error](err)
		if refusal == nil {
			t.Fatal(err)
		}
		seen = append(seen, seenLink{
			links[0], read.Contents[0].URI, read.Contents[0].Text, links[0] == links[1], session.InitializeResult().Capabilities.Resources != nil, refusal.Code,
		})
	}
	return seen
}

func readByInspector(t *testing.T, endpoint, era string) (seen []seenLink) {
	t.Helper()
	run := func(args ...string) (string, error) {
		t.Helper()
		return runNode(t, patience, append([]string{installed(t, "mcp-inspector"), "--cli", endpoint, "--transport", "http", "--protocol-era", era, "--method"}, args...)...)
	}
	for _, name := range []string{"sessions.link", "stateless.link"} {
		var got struct {
			Messages []struct{ Content struct{ URI string } }
		}
		out, err := run("prompts/get", "--prompt-name", name)
		if err == nil {
			err = json.Unmarshal([]byte(out), &got)
		}
		if err != nil || len(got.Messages) != 1 {
			t.Fatalf("%v\n%s", err, out)
		}
		again, err := run("prompts/get", "--prompt-name", name)
		if err != nil {
			t.Fatal(err)
		}
		uri := got.Messages[0].Content.URI
		var read struct{ Contents []struct{ URI, Text string } }
		text, err := run("resources/read", "--uri", uri)
		if err == nil {
			err = json.Unmarshal([]byte(text), &read)
		}
		if err != nil || len(read.Contents) != 1 {
			t.Fatalf("%v\n%s", err, text)
		}
		one := seenLink{URI: uri, Read: read.Contents[0].URI, Text: read.Contents[0].Text, Same: out == again, Resources: true, Unknown: -32002}
		if era == "modern" {
			one.Unknown = -32602
		}
		if _, err := run("resources/read", "--uri", strings.Replace(uri, "://", "://x", 1)); err == nil || !strings.Contains(err.Error(), "Unknown resource") {
			t.Errorf("an unknown link: %v", err)
		}
		seen = append(seen, one)
	}
	return seen
}
