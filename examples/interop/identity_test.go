package interop_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2/clientcredentials"

	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// guarded is the configuration of a gateway that accepts an issuer's tokens. People get their group from the provider;
// programs are named by their subject.
const guarded = `
gateway { listen = "127.0.0.1:0" }
admin { listen = "127.0.0.1:0" }
auth {
  jwt "idp" {
    issuer   = %q
    audience = "https://prompts.example.com/mcp"
    scopes   = ["prompts:read"]
    leeway   = "0s"
  }
}
team "interop" {
  members = ["group:engineering"]
  %s
}
`

// provider is idp.mjs.
type provider struct {
	t      *testing.T
	issuer string
	in     io.Writer
	lines  *bufio.Scanner
}

func startProvider(t *testing.T) *provider {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "node", "idp.mjs")
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // killed
	})
	p := &provider{t: t, in: in, lines: bufio.NewScanner(out)}
	p.issuer = p.line()
	return p
}

func (p *provider) line() string {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("the provider ended: %v", p.lines.Err())
	}
	return p.lines.Text()
}

// rotate makes the provider sign with another key.
func (p *provider) rotate() {
	p.t.Helper()
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		p.t.Fatal(err)
	}
	p.line()
}

// token returns a token for a program, by client credentials.
func (p *provider) token(client, scope, resource string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	config := clientcredentials.Config{
		ClientID: client, ClientSecret: client + "-secret", TokenURL: p.issuer + "/token", Scopes: []string{scope},
		EndpointParams: map[string][]string{"resource": {resource}},
	}
	token, err := config.Token(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	return token.AccessToken
}

func startGuarded(t *testing.T, p *provider) (endpoint string) {
	t.Helper()
	dir := t.TempDir()
	proctest.Build(t, dir, "./cmd/promptweir")
	file := filepath.Join(dir, "gateway.hcl")
	if err := os.WriteFile(file, fmt.Appendf(nil, guarded, p.issuer, newServer(t, true).upstream()), 0o600); err != nil {
		t.Fatal(err)
	}
	return proctest.Start(t, dir, filepath.Join(dir, "promptweir"), "serve", "--config", file).Attr(t, "endpoint")
}

// asked sends prompts/list with a token, and returns the status and the challenge.
func asked(t *testing.T, endpoint, token string) (status int, challenge string) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"interop","version":"1"}}}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode, response.Header.Get("WWW-Authenticate")
}

// TestIdentity_TokensOfACertifiedProvider authenticates programs with tokens from client credentials.
func TestIdentity_TokensOfACertifiedProvider(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	endpoint := startGuarded(t, p)
	expect := func(what, token string, want int, says string) {
		t.Helper()
		if got, challenge := asked(t, endpoint, token); got != want || !strings.Contains(challenge, says) {
			t.Errorf("%s: status %d, challenge %s; want %d with %q", what, got, challenge, want, says)
		}
	}
	old := p.token("program", "prompts:read", endpoint)
	expect("a good token", old, http.StatusOK, "")
	expect("one for another server", p.token("program", "prompts:read", "https://other.example.com/x"), http.StatusUnauthorized, `error="invalid_token"`)
	expect("one without the scope", p.token("visitor", "other", endpoint), http.StatusForbidden, `error="insufficient_scope"`)
	expect("none of the provider's", old[:len(old)-8]+"AAAAAAAA", http.StatusUnauthorized, `error="invalid_token"`)

	brief := p.token("brief", "prompts:read", endpoint)
	expect("one for two seconds", brief, http.StatusOK, "")
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		status, _ := asked(t, endpoint, brief)
		if status == http.StatusUnauthorized {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the token does not expire: status %d", status)
		}
	}

	// The keys were fetched a moment ago, and are not fetched again for ten seconds.
	p.rotate()
	rotated := p.token("program", "prompts:read", endpoint)
	for deadline := time.Now().Add(patience); ; time.Sleep(250 * time.Millisecond) {
		status, _ := asked(t, endpoint, rotated)
		if status == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the new key is not followed: status %d", status)
		}
	}
	expect("one of the key before", old, http.StatusUnauthorized, `error="invalid_token"`)
}

// TestIdentity_ClientDiscoversTheProvider lets the TypeScript SDK begin with nothing but the endpoint.
func TestIdentity_ClientDiscoversTheProvider(t *testing.T) {
	t.Parallel()
	p := startProvider(t)
	endpoint := startGuarded(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "login.mjs", endpoint, "alice")
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Scope   string
		Prompts []string
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(got.Prompts) != 1 || got.Prompts[0] != "stateless.greet" || !strings.Contains(got.Scope, "prompts:read") {
		t.Errorf("scope %q, prompts %v; want prompts:read and stateless.greet", got.Scope, got.Prompts)
	}
}
