package interop_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
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

    client_id = "mcp-clients" # registered with the provider that is static
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

// startProvider starts a provider, as a script with arguments says.
func startProvider(t *testing.T, script ...string) *provider {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "node", script...)
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
	endpoint, _ = startAt(t, fmt.Sprintf(guarded, p.issuer, newServer(t, true).upstream()))
	return endpoint
}

// startAt starts a gateway with a configuration, in a folder with its file gateway.hcl and its program promptweir.
func startAt(t *testing.T, configuration string) (endpoint, folder string) {
	t.Helper()
	folder = t.TempDir()
	proctest.Build(t, folder, "./cmd/promptweir")
	file := filepath.Join(folder, "gateway.hcl")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	return proctest.Start(t, folder, filepath.Join(folder, "promptweir"), "serve", "--config", file).Attr(t, "endpoint"), folder
}

// signIn lets the TypeScript SDK begin with nothing but the endpoint or, with a client's id, as a client that is registered.
func signIn(t *testing.T, endpoint string, clientID ...string) (scope, text string, prompts []string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{"login.mjs", endpoint, "alice"}, clientID...)...)
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", "", nil, fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	var got struct {
		Scope, Text string
		Prompts     []string
	}
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	return got.Scope, got.Text, got.Prompts, err
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
	p := startProvider(t, "idp.mjs")
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

// TestIdentity_ClientDiscoversTheProvider lets the TypeScript SDK register, or be the registered client where none may register.
func TestIdentity_ClientDiscoversTheProvider(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ provider, client []string }{
		"registers":     {[]string{"idp.mjs"}, nil},
		"is registered": {[]string{"idp.mjs", "static"}, []string{"mcp-clients"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endpoint := startGuarded(t, startProvider(t, test.provider...))
			scope, text, prompts, err := signIn(t, endpoint, test.client...)
			if err != nil || !slices.Equal(prompts, []string{"stateless.greet"}) || !strings.Contains(scope, "prompts:read") || text != "Hello, alice!" {
				t.Errorf("%v: scope %q, prompts %v, text %q; want prompts:read and stateless.greet", err, scope, prompts, text)
			}
		})
	}
}

// TestIdentity_ClaudeCodeSignsInAsTheRegisteredClient gives Claude Code what promptweir client prints, and nothing else, at a provider
// that lets no client register. A script stands for its browser; signing in wants a terminal.
func TestIdentity_ClaudeCodeSignsInAsTheRegisteredClient(t *testing.T) {
	t.Parallel()
	endpoint, folder := startAt(t, fmt.Sprintf(guarded, startProvider(t, "idp.mjs", "static").issuer, newServer(t, true).upstream()))
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	bin, project := t.TempDir(), t.TempDir()
	for name, script := range map[string]string{
		"claude":   fmt.Sprintf("exec node %q \"$@\"", claudeLauncher(t)),
		"xdg-open": fmt.Sprintf("exec node %q \"$1\"", filepath.Join(here, "browser.mjs")),
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	api := &modelStub{}
	server := httptest.NewServer(api)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	env := append([]string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "BROWSER=" + filepath.Join(bin, "xdg-open"), "TERM=xterm",
	}, claudeEnv(server.URL)...)
	run := func(command string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, "sh", "-c", command)
		cmd.Dir, cmd.Env, cmd.WaitDelay = project, env, 5*time.Second
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return string(out)
	}
	// The file has no public_url, and the gateway chose its port: as if it did.
	printed := run(filepath.Join(folder, "promptweir") + " client claude --config " + filepath.Join(folder, "gateway.hcl") + " 2>/dev/null")
	run(strings.Replace(strings.TrimSpace(printed), "http://127.0.0.1:0/mcp", endpoint, 1))
	if got := run(`script -qec "claude mcp login prompts" /dev/null`); !strings.Contains(got, "Authenticated") {
		t.Fatalf("claude mcp login: %s", got)
	}
	run("claude -p '/mcp__prompts__stateless.greet Ada'")
	if got := api.last(); got != "Hello, Ada!" {
		t.Errorf("the model gets %q from %s", got, endpoint)
	}
}

// TestIdentity_EveryAddressLeadsToItsResource walks with the TypeScript SDK from each address of a gateway, behind a proxy that strips
// what public_url has in front of the path, to the resource that a token is asked for.
func TestIdentity_EveryAddressLeadsToItsResource(t *testing.T) {
	t.Parallel()
	p := startProvider(t, "idp.mjs", "static")
	for _, test := range []struct{ public, path, prefix string }{
		{"", "/mcp", ""}, {"/", "/mcp", ""}, {"/mcp", "/mcp", ""}, {"/team/mcp/", "/mcp", "/team"}, {"", "/prompts/mcp", ""},
	} {
		t.Run(test.public+" with "+test.path, func(t *testing.T) {
			t.Parallel()
			var gateway atomic.Pointer[url.URL]
			front := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) {
				p.Out.URL.Path = strings.TrimPrefix(p.In.URL.Path, test.prefix)
				p.SetURL(gateway.Load())
			}})
			t.Cleanup(front.Close)
			configuration := strings.Replace(fmt.Sprintf(guarded, p.issuer, ""), `gateway { listen = "127.0.0.1:0" }`, fmt.Sprintf(`gateway {
  listen     = "127.0.0.1:0"
  public_url = %q
  path       = %q
  variants   = ["flat", "tools"]
}`, front.URL+test.public, test.path), 1)
			endpoint, _ := startAt(t, configuration)
			to, err := url.Parse(strings.TrimSuffix(endpoint, test.path))
			if err != nil {
				t.Fatal(err)
			}
			gateway.Store(to)
			base := front.URL + test.prefix
			want := map[string]string{base + "/sse": base + "/sse"}
			for _, variant := range []string{"", "/flat", "/tools"} {
				want[base+test.path+variant] = base + test.path
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			out, err := exec.CommandContext(ctx, "node", append([]string{"walk.mjs"}, slices.Sorted(maps.Keys(want))...)...).Output()
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			if err := json.Unmarshal(out, &got); err != nil || !maps.Equal(got, want) {
				t.Errorf("%v: resources %v, want %v", err, got, want)
			}
		})
	}
}

// entra is the configuration for a double of Entra, by the recipe in examples/identity.
const entra = `
gateway {
  listen     = "127.0.0.1:0"
  public_url = %q
}
admin { listen = "127.0.0.1:0" }
auth {
  jwt "entra" {
    issuer        = %q
    audience      = "the-guid"
    scopes        = ["prompts.read"]
    subject_claim = "oid"
    groups_claim  = "roles"
    %s
  }
}
team "interop" {
  members = ["group:engineering"]
  %s
}
`

// TestIdentity_DoubleOfEntra signs in at a double of what Entra's documents say that it refuses.
func TestIdentity_DoubleOfEntra(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		scoped  bool
		appID   string // the Application ID URI; by default, the endpoint
		problem string
	}{
		"request_scopes":                 {scoped: true},
		"without request_scopes":         {problem: "AADSTS65001"},
		"the endpoint is not the app ID": {scoped: true, appID: "https://other.example.com/mcp", problem: "AADSTS500011"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Entra knows the endpoint before the gateway listens.
			var gateway atomic.Pointer[url.URL]
			front := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(gateway.Load()) }})
			t.Cleanup(front.Close)
			public := front.URL + "/mcp"
			more := ""
			if test.scoped {
				more = fmt.Sprintf("request_scopes = [%q]", public+"/prompts.read")
			}
			double := startProvider(t, "entra.mjs", cmp.Or(test.appID, public))
			endpoint, _ := startAt(t, fmt.Sprintf(entra, front.URL, double.issuer, more, newServer(t, true).upstream()))
			to, err := url.Parse(strings.TrimSuffix(endpoint, "/mcp"))
			if err != nil {
				t.Fatal(err)
			}
			gateway.Store(to)
			_, text, _, err := signIn(t, public, "mcp-clients")
			switch {
			case test.problem == "" && (err != nil || text != "Hello, alice!"):
				t.Errorf("signing in: %v, text %q", err, text)
			case test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem)):
				t.Errorf("signing in: %v, want %s", err, test.problem)
			}
		})
	}
}
