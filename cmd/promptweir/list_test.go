package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// atDefault makes commands find a server at the default endpoint, but no other through the environment.
func atDefault(t *testing.T, url string) {
	t.Helper()
	before := defaultEndpoint
	t.Cleanup(func() { defaultEndpoint = before })
	defaultEndpoint = url
	for _, variable := range []string{"PROMPTWEIR_URL", "PROMPTWEIR_CONFIG", "PROMPTWEIR_TOKEN"} {
		t.Setenv(variable, "")
	}
}

func TestDefaultEndpoint_IsUsedIfPromptweirServesThere(t *testing.T) {
	inHome(t)
	s, _, _ := gatewaytest.ServeTwoTeams(t, "")
	atDefault(t, s.URL)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"list", "-o", "name"}, "billing.ledger\nbilling.review_pr\n"},
		{[]string{"get", "billing.review_pr"}, "user: "},
		{[]string{"sync", "--to", "claude", "--dry-run"}, "claude: "},
		{[]string{"__complete", "get", "billing.r"}, "billing.review_pr"},
		{[]string{"__complete", "list", "billing.r"}, "billing.review_pr"},
	} {
		out, errs, code := runHere(t, test.args...)
		if code != exitDone || !strings.Contains(out, test.want) {
			t.Errorf("promptweir %q: exit code %d, want %q:\n%s%s", test.args, code, test.want, out, errs)
		}
	}
}

// A program at the default endpoint gets no token from a variable: it may be any program on this machine.
func TestDefaultEndpoint_GetsNoTokenOfTheEnvironmentAndIsNoOtherServer(t *testing.T) {
	s := gatewaytest.Serve(t, "auth {\n"+gatewaytest.Token("ann", "payments")+"\n}\n"+gatewaytest.Team("payments", `"group:payments"`, ""))
	other := serveOverHTTP(t, mcp.NewServer(&mcp.Implementation{Name: "other", Version: "1"}, nil))
	for _, test := range []struct {
		url, args, want string
		code            int
	}{
		{s.URL, "list", "--url URL or --config PATH is required; tried the default: " + s.URL + ": the server wants a credential", exitUsage},
		{s.URL, "list --token ann", "promptweir: no prompts", exitDone},
		{other, "list", "the server at the default, " + other + ", is not promptweir", exitUsage},
		{other, "list --url " + other, "promptweir: no prompts", exitDone},
	} {
		var sent []string
		spy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			sent = append(sent, r.Header.Get("Authorization"))
		}))
		atDefault(t, spy.URL)
		t.Setenv("PROMPTWEIR_TOKEN", "ann")
		_, _, _ = runHere(t, "list")
		spy.Close()
		if len(sent) == 0 || strings.Join(sent, "") != "" {
			t.Errorf("the server at the default gets %q", sent)
		}
		atDefault(t, test.url)
		t.Setenv("PROMPTWEIR_TOKEN", "ann")
		if _, errs, code := runHere(t, strings.Fields(test.args)...); code != test.code || !strings.Contains(errs, test.want) {
			t.Errorf("promptweir %s: exit code %d, want %d and %q:\n%s", test.args, code, test.code, test.want, errs)
		}
	}
}

// lockedBuffer is output that another goroutine reads.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestListWatch_PrintsEachChange(t *testing.T) {
	peer := upstreamtest.NewModernPeer(t)
	peer.Prompts("a", "b", "x")
	server := httptest.NewServer(peer)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer server.CloseClientConnections()
	ended := make(chan int, 1)
	var out lockedBuffer
	defer func() {
		cancel()
		<-ended
	}()
	go func() {
		args := []string{"list", "--watch", "?", "-o", "name", "--url", server.URL}
		ended <- run(ctx, args, streams{in: strings.NewReader(""), out: &out, err: &lockedBuffer{}})
	}()
	holds := func(want string) {
		t.Helper()
		upstreamtest.Eventually(t, "the output is "+want, func() bool { return out.String() == want })
	}
	holds("a\nb\nx\n")
	peer.List(`{"name":"a"}`, `{"name":"b","title":"B"}`, `{"name":"c"}`, `{"name":"other"}`)
	peer.Changed()
	holds("a\nb\nx\n~ b\n+ c\n- x\n")
}
