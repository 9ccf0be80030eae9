package interop_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// TestInterop_ServerRestartsWhileIdle replaces npm's mcp-proxy, which keeps its sessions in memory, behind an address that stays. The
// next get works within three seconds, in whatever way the proxy refuses a session that it does not know.
func TestInterop_ServerRestartsWhileIdle(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		flags   []string
		headers string
	}{
		"legacy":             {[]string{"--no-modern"}, ""},
		"legacy, an API key": {[]string{"--no-modern", "--apiKey", "interop"}, `headers = { X-API-Key = "interop" }`},
		"both eras":          {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var current atomic.Pointer[url.URL]
			front := httptest.NewServer(&httputil.ReverseProxy{
				FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(current.Load()) }, ErrorLog: log.New(io.Discard, "", 0),
			})
			t.Cleanup(func() {
				front.CloseClientConnections()
				front.Close()
			})
			first, stop := startProxy(t, test.flags)
			current.Store(first)
			endpoint := startGateway(t, defaultPages, "upstream \"everything\" {\n url = \""+front.URL+"/mcp\"\n "+test.headers+"\n}")
			waitUntilListed(t, endpoint, []string{
				"everything.args-prompt", "everything.completable-prompt", "everything.resource-prompt", "everything.simple-prompt",
			})
			client := mcp.NewClient(&mcp.Implementation{Name: "restart", Version: "1"}, nil)
			session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: endpoint}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			get := func(when string) {
				begun := time.Now()
				_, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "everything.simple-prompt"})
				if took := time.Since(begun); err != nil || took > 3*time.Second {
					t.Errorf("%s the restart: the get ends after %s with %v", when, took, err)
				}
			}
			get("before")
			second, _ := startProxy(t, test.flags)
			current.Store(second)
			stop()
			get("after")
		})
	}
}

// startProxy runs mcp-proxy in front of the server from npm, until stop or the end of the test. It returns once the proxy listens.
func startProxy(t *testing.T, flags []string) (address *url.URL, stop func()) {
	t.Helper()
	at := upstreamtest.Address(t)
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--host", host, "--port", port}, flags...)
	cmd := exec.Command(installed(t, "mcp-proxy"), append(args, "--", installed(t, "mcp-server-everything"), "stdio")...) //nolint:noctx // stop ends it
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with its server
		_ = cmd.Wait()
	}
	t.Cleanup(stop)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", at)
		if err == nil {
			_ = conn.Close()
			return &url.URL{Scheme: "http", Host: at}, stop
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			stop()
			t.Fatalf("mcp-proxy does not listen: %v\n%s", err, output.String())
		}
	}
}
