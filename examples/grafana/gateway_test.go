package grafana_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// fault is what happens to a gateway, and the alerts that this raises.
type fault struct {
	alerts []string
	begin  func(*testing.T)
	repeat func(*testing.T) // again and again until the alerts are raised
}

// faults returns those of two gateways, in the order in which they can happen.
func faults(first, second *gateway) []fault {
	return []fault{
		{
			alerts: []string{"PromptweirOverloaded"}, // its rate allows a get in 100 seconds
			repeat: func(t *testing.T) { first.get(t, "slow.shift_handover", nil) },
		},
		{
			alerts: []string{"PromptweirGetsFail", "PromptweirBreakerFlaps", "PromptweirUpstreamDown"},
			begin:  func(*testing.T) { first.fails.Store(true) },
			repeat: func(t *testing.T) { first.get(t, "handbook.shift_handover", nil) },
		},
		{
			alerts: []string{"PromptweirCatalogReports"},
			begin:  func(t *testing.T) { first.write(t, "broken.md", "---\nname: [\n") },
		},
		{
			alerts: []string{"PromptweirConfigurationRefused"},
			begin:  func(t *testing.T) { first.write(t, "mistake.hcl", "gateway {") },
		},
		{
			alerts: []string{"PromptweirIssuerUnreachable"},
			repeat: func(t *testing.T) { first.list(t, unsigned(first.issuer)) },
		},
		{
			alerts: []string{"PromptweirCredentialsRefused"},
			repeat: func(t *testing.T) {
				for range 100 {
					first.list(t, "nobody")
				}
			},
		},
		{
			alerts: []string{"PromptweirAuditNotWritable", "PromptweirAuditLinesLost"}, // what does not fit into the queue is lost
			repeat: func(t *testing.T) {
				for range 50 {
					second.get(t, "notes.hello", map[string]string{
						"a": strings.Repeat("a", 1<<10), "b": strings.Repeat("b", 1<<10),
						"c": strings.Repeat("c", 1<<10), "d": strings.Repeat("d", 1<<10), "e": strings.Repeat("e", 1<<10),
					})
				}
			},
		},
		{
			// The gateway waits for an upstream that hangs before it answers the first list, has less memory than it takes, and
			// starts with a broken file of another team, no prompts, and a store that is not there.
			alerts: []string{
				"PromptweirListsSlow", "PromptweirTeamFilesLastGood", "PromptweirCatalogEmpty", "PromptweirMemoryNearLimit",
				"PromptweirManyUpstreamsDown", "PromptweirStoreUnavailable",
			},
			begin: func(t *testing.T) {
				second.process.stop()
				second.hangs.Store(true)
				second.write(t, "broken.hcl", "team {")
				second.write(t, "cluster.hcl", fmt.Sprintf("cluster { store = \"redis://%s\" }", strings.TrimPrefix(first.issuer, "http://")))
				check(t, os.Remove(filepath.Join(second.folder, "hello.md")))
				for _, list := range []string{"handbook.json", "notes.json"} { // what is kept would be listed
					check(t, os.RemoveAll(filepath.Join(second.state, list)))
				}
				second.serve(t, "GOMEMLIMIT=8MiB")
				var lists sync.WaitGroup
				for range 30 { // fewer than one address may have connections with so little memory
					lists.Go(func() { second.list(t, "") })
				}
				lists.Wait()
			},
		},
	}
}

// gateway is one that a test does things to.
type gateway struct {
	binary, folder, state string
	process               *process
	endpoint, admin       string // HOST:PORT; the same after a restart
	issuer                string // of tokens that nobody can check
	fails, hangs          atomic.Bool
	server                string // the URL of a server whose gets fail, or that does not answer, if these are set
}

// newGateway builds a gateway's programs, and starts a server whose prompts change.
func newGateway(t *testing.T) *gateway {
	t.Helper()
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", bin+"/", "./cmd/promptweir", "./examples/servers/handbook")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	g := &gateway{binary: filepath.Join(bin, "promptweir"), folder: t.TempDir(), state: t.TempDir(), endpoint: "127.0.0.1:0", admin: "127.0.0.1:0"}
	handbook := start(t, nil, filepath.Join(bin, "handbook"), "-listen", "127.0.0.1:0", "-change-every", "1s")
	target, err := url.Parse(handbook.log.find(t, `endpoint="?(\S+?)"?\s`))
	check(t, err)
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host})
		r.Out.Host = target.Host
	}}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		switch {
		case err != nil || g.fails.Load() && bytes.Contains(body, []byte(`"prompts/get"`)):
			w.WriteHeader(http.StatusInternalServerError)
		case g.hangs.Load():
			<-r.Context().Done()
		default:
			r.Body = io.NopCloser(bytes.NewReader(body))
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	g.server = web.URL + target.Path
	g.write(t, "hello.md", "Hello")
	return g
}

// startFirst starts a gateway with tokens, an issuer that is not there, the server twice, once with a low rate, and prompts from files.
func startFirst(t *testing.T) *gateway {
	t.Helper()
	g := newGateway(t)
	nobody := httptest.NewServer(nil)
	nobody.Close()
	g.issuer = nobody.URL
	g.write(t, "platform.hcl", fmt.Sprintf(`
auth {
  token "red" {
    sha256 = sha256("red")
    as     = "static"
  }
  token "blue" {
    sha256 = sha256("blue")
    as     = "static"
  }
  jwt "corp" {
    issuer   = %q
    audience = "promptweir"
    as       = "corp"
  }
}`, g.issuer))
	g.write(t, "docs.hcl", fmt.Sprintf(`
team "docs" {
  members = ["user:static/red", "user:static/blue"]
  upstream "handbook" {
    url = %q
    breaker {
      failures = 1
      cooldown = "100ms"
    }
  }
  upstream "slow" {
    url     = %q
    rate    = 0.01
    timeout = "1s"
  }
  upstream "notes" { files = ["*.md"] }
}`, g.server, g.server))
	g.serve(t)
	return g
}

// startSecond starts a gateway with an audit log that nobody can write, the server and prompts from files.
func startSecond(t *testing.T) *gateway {
	t.Helper()
	g := newGateway(t)
	g.write(t, "platform.hcl", "audit {\n  path      = \"/dev/full\"\n  arguments = \"values\"\n}")
	g.write(t, "notes.hcl", fmt.Sprintf(`
team "notes" {
  upstream "handbook" {
    url     = %q
    timeout = "2s"
  }
  upstream "notes" { files = ["*.md"] }
}`, g.server))
	g.serve(t)
	return g
}

// write writes a file into the folder of the configuration.
func (g *gateway) write(t *testing.T, name, text string) {
	t.Helper()
	check(t, os.WriteFile(filepath.Join(g.folder, name), []byte(text), 0o600))
}

// serve starts the gateway, at the addresses that it had before.
func (g *gateway) serve(t *testing.T, env ...string) {
	t.Helper()
	g.write(t, "listen.hcl", fmt.Sprintf("gateway {\n  listen      = %q\n  state_dir   = %q\n  drain_delay = \"0s\"\n  cursor_keys = [\"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\"]\n}\nadmin { listen = %q }\n",
		g.endpoint, g.state, g.admin))
	g.process = start(t, env, g.binary, "serve", "--config", g.folder)
	g.endpoint = g.process.log.find(t, `endpoint=http://([^/\s]+)`)
	g.admin = g.process.log.find(t, `admin=http://(\S+)`)
}

// list lists the prompts with a token, which may be wrong.
func (g *gateway) list(t *testing.T, token string) {
	t.Helper()
	g.call(t, "prompts/list", "", map[string]any{}, token).Close()
}

// get gets a prompt for two callers, which may fail: what fails for one alone opens no breaker.
func (g *gateway) get(t *testing.T, name string, arguments map[string]string) {
	t.Helper()
	for _, token := range []string{"red", "blue"} {
		g.call(t, "prompts/get", name, map[string]any{"name": name, "arguments": arguments}, token).Close()
	}
}

// listen opens a stream of notifications.
func (g *gateway) listen(t *testing.T) io.Closer {
	t.Helper()
	return g.call(t, "subscriptions/listen", "", map[string]any{"notifications": map[string]bool{"promptsListChanged": true}}, "red")
}

func (g *gateway) call(t *testing.T, method, name string, params map[string]any, token string) io.Closer {
	t.Helper()
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{},
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	check(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.endpoint+"/mcp", bytes.NewReader(body))
	check(t, err)
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method},
	}
	if name != "" {
		r.Header.Set("Mcp-Name", name)
	}
	if token != "" && g.issuer != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(r)
	check(t, err)
	return response.Body
}

// unsigned returns a token that only its issuer could check.
func unsigned(issuer string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256","kid":"1"}`)) + "." + encode(fmt.Appendf(nil, `{"iss":%q,"aud":"promptweir","sub":"alice","exp":4102444800}`, issuer)) +
		"." + encode([]byte("signature"))
}

// process is a program that runs until its test ends.
type process struct {
	*exec.Cmd
	log output
}

func start(t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	// The test's own context ends before the cleanup.
	p := &process{Cmd: exec.CommandContext(context.WithoutCancel(t.Context()), name, args...)}
	p.Env = append(os.Environ(), env...)
	p.Stdout, p.Stderr = &p.log, &p.log
	p.WaitDelay = time.Second
	check(t, p.Start())
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, p.log.text())
		}
	})
	return p
}

// stop ends the program with SIGTERM. It may have ended.
func (p *process) stop() {
	_ = p.Process.Signal(syscall.SIGTERM)
	_ = p.Wait()
}

// output is what a process has written.
type output struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.Write(b)
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.String()
}

// find returns the first group of a pattern once something that matches it was written.
func (o *output) find(t *testing.T, pattern string) (found string) {
	t.Helper()
	await(t, "log with "+pattern, func() bool {
		match := regexp.MustCompile(pattern).FindStringSubmatch(o.text())
		if match != nil {
			found = match[1]
		}
		return match != nil
	})
	return found
}

// answer is an HTTP response.
type answer struct {
	code int
	text string
}

func get(t *testing.T, url string) (answer, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	check(t, err)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, string(text)}, err
}

// await polls until something is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within a minute", what)
		}
	}
}
