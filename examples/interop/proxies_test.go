package interop_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/promptweir/promptweir/examples/internal/proctest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// front is a proxy that ends TLS in front of two gateways.
type front struct {
	address  string // HOST:PORT
	client   *http.Client
	gateways []*replica
}

// replica is a gateway behind a proxy.
type replica struct {
	endpoint, admin string // HOST:PORT
	audit           string
	cmd             *exec.Cmd
}

func TestHAProxy_InFrontOfTwoGateways(t *testing.T) {
	t.Parallel()
	takesLong(t)
	f := newFront(t)
	certificate, key := f.certificate(t)
	bundle := filepath.Join(t.TempDir(), "bundle.pem")
	write(t, bundle, certificate+key)
	config := exampleOf(t, "haproxy.cfg", "0.0.0.0:443", f.address, "/etc/haproxy/prompts.example.com.pem", bundle,
		"server a 10.0.0.11:8080", "server a "+f.gateways[0].endpoint+" port "+portOf(f.gateways[0].admin),
		"server b 10.0.0.12:8080", "server b "+f.gateways[1].endpoint+" port "+portOf(f.gateways[1].admin))
	passes(t, proxyProgram("haproxy"), "-c", "-f", config)
	f.start(t, proxyProgram("haproxy"), "-db", "-f", config)
	f.serves(t)
	f.survivesARestart(t, true)
}

func TestNginx_InFrontOfTwoGateways(t *testing.T) {
	t.Parallel()
	takesLong(t)
	f := newFront(t)
	certificate, key := f.certificate(t)
	folder := t.TempDir()
	write(t, filepath.Join(folder, "crt"), certificate)
	write(t, filepath.Join(folder, "key"), key)
	config := exampleOf(t, "nginx.conf", "0.0.0.0:443", f.address, "10.0.0.11:8080", f.gateways[0].endpoint, "10.0.0.12:8080", f.gateways[1].endpoint,
		"/etc/nginx/prompts.example.com.crt", filepath.Join(folder, "crt"), "/etc/nginx/prompts.example.com.key", filepath.Join(folder, "key"),
		// What the distribution's own file has where this one is included.
		"events {}", fmt.Sprintf("daemon off; pid %s/pid; error_log %s/log; events {}", folder, folder),
		"http {", fmt.Sprintf("http { access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; "+
			"uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;", folder))
	passes(t, proxyProgram("nginx"), "-t", "-p", folder, "-c", config)
	f.start(t, proxyProgram("nginx"), "-p", folder, "-c", config)
	f.serves(t)
	f.survivesARestart(t, false)
}

// newFront starts two gateways with the same cursor keys, which know the address at which their proxy will listen.
func newFront(t *testing.T) *front {
	t.Helper()
	bin := t.TempDir()
	proctest.Build(t, bin, "./cmd/promptweir")
	f := &front{address: upstreamtest.Address(t)}
	folder := t.TempDir()
	write(t, filepath.Join(folder, "hello.md"), "Hello")
	for range 2 {
		r := &replica{audit: filepath.Join(t.TempDir(), "audit.jsonl")}
		name := filepath.Join(folder, fmt.Sprintf("%d.hcl", len(f.gateways)))
		write(t, name, fmt.Sprintf(`
gateway {
  listen          = "127.0.0.1:0"
  public_url      = "https://prompts.example.com"
  trusted_proxies = ["127.0.0.1"]
  cursor_keys     = ["MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="]
  drain_delay     = "15s"
}
admin { listen = "127.0.0.1:0" }
audit {
  path   = %q
  access = true
}
team "docs" {
  upstream "docs" { files = ["*.md"] }
}`, r.audit))
		r.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(bin, "promptweir"), "serve", "--config", name, "--log-format", "json")
		stderr, err := r.cmd.StderrPipe()
		if err == nil {
			err = r.cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.cmd.Process.Kill() })
		for lines := bufio.NewScanner(stderr); r.admin == "" && lines.Scan(); {
			var record struct{ Msg, Endpoint, Admin string }
			if err := json.Unmarshal(lines.Bytes(), &record); err == nil && record.Msg == "listening" {
				r.admin = strings.TrimPrefix(record.Admin, "http://")
				r.endpoint = strings.TrimSuffix(strings.TrimPrefix(record.Endpoint, "http://"), "/mcp")
			}
		}
		go func() { _, _ = io.Copy(io.Discard, stderr) }()
		f.gateways = append(f.gateways, r)
	}
	return f
}

// certificate returns a certificate for the public name and its key, which the client of the front accepts.
func (f *front) certificate(t *testing.T) (certificate, key string) {
	t.Helper()
	web := httptest.NewTLSServer(nil) // its certificate is for example.com and the names under it
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	private, err := x509.MarshalPKCS8PrivateKey(web.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	f.client = &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{RootCAs: roots},
		// The name leads to the proxy, and the client's address is not the proxy's.
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}).DialContext(ctx, "tcp", f.address)
		},
	}}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

// start starts the proxy, and waits until it lets a request through.
func (f *front) start(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %s", name, log.String())
		}
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		code, err := f.post(t, "prompts/list", "{}", func(io.Reader) {})
		if err == nil && code == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing comes through %s: %d, %v", name, code, err)
		}
	}
}

// post sends a request of the modern era to the public URL.
func (f *front) post(t *testing.T, method, params string, read func(io.Reader)) (int, error) {
	t.Helper()
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	if params != "{}" {
		meta += ","
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + meta + strings.TrimPrefix(params, "{") + `}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://prompts.example.com/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method},
	}
	response, err := f.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	read(response.Body)
	return response.StatusCode, nil
}

// serves checks that a stream comes through as it is written and outlasts a silence, and that the gateway knows the client's address.
func (f *front) serves(t *testing.T) {
	t.Helper()
	began := time.Now()
	code, err := f.post(t, "subscriptions/listen", `{"notifications":{"promptsListChanged":true}}`, func(body io.Reader) {
		events := bufio.NewReader(body)
		await := func(what string, within time.Duration) {
			for {
				line, err := events.ReadString('\n')
				if err != nil {
					t.Fatalf("the stream ended after %v: %v", time.Since(began), err)
				}
				if strings.Contains(line, what) {
					break
				}
			}
			if took := time.Since(began); took > within {
				t.Errorf("%q took %v, want at most %v: the proxy holds it back", what, took, within)
			}
		}
		await("acknowledged", 5*time.Second)
		await(": keep-alive", 25*time.Second)
	})
	if err != nil || code != http.StatusOK {
		t.Errorf("listen: %d, %v", code, err)
	}
	var lines strings.Builder
	for _, r := range f.gateways {
		text, err := os.ReadFile(r.audit)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(text)
	}
	if !strings.Contains(lines.String(), `"client":"127.0.0.9"`) || strings.Contains(lines.String(), `"client":"127.0.0.1"`) {
		t.Errorf("the audit logs do not have the client's address, or have the proxy's:\n%s", lines.String())
	}
}

// survivesARestart checks that nobody notices when one of the gateways is stopped, as in a deployment. If the proxy asks /readyz, it
// takes the gateway out while that still serves, so that nobody's connection is refused; otherwise both have answered until then.
func (f *front) survivesARestart(t *testing.T, asksReadiness bool) {
	t.Helper()
	ending, other := f.gateways[0], f.gateways[1]
	var failed, answered atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if code, err := f.post(t, "prompts/list", "{}", func(body io.Reader) { _, _ = io.Copy(io.Discard, body) }); err != nil || code != http.StatusOK {
				failed.Add(1)
				t.Logf("%d, %v", code, err)
			}
			answered.Add(1)
		}
	}()
	awaitMore := func(n int64) {
		for before := answered.Load(); answered.Load() < before+n; {
			time.Sleep(10 * time.Millisecond)
		}
	}
	awaitMore(100)
	if ending.requests(t) == 0 || other.requests(t) == 0 {
		t.Errorf("of 100 requests the gateways have answered %d and %d, want turns", ending.requests(t), other.requests(t))
	}
	if err := ending.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- ending.cmd.Wait() }()
	takenOut := -1 // how many requests it had then
	for takenOut < 0 && len(ended) == 0 {
		before := ending.requests(t)
		if awaitMore(100); ending.requests(t) == before && ending.listens(t) {
			takenOut = before
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
	awaitMore(20)
	close(stop)
	<-stopped
	switch last := ending.requests(t); {
	case asksReadiness && takenOut != last:
		t.Errorf("a gateway whose /readyz says 503 has answered %d requests when it was taken out (-1 is never), and %d in the end, want the same",
			takenOut, last)
	case !asksReadiness && takenOut >= 0:
		t.Errorf("the gateway was taken out after %d requests while it served: say so in the example", takenOut)
	}
	if failed.Load() != 0 {
		t.Errorf("of %d requests while a gateway was stopped, %d failed", answered.Load(), failed.Load())
	}
}

// requests returns how many requests the gateway has recorded.
func (r *replica) requests(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(r.audit)
	if err != nil {
		t.Error(err)
	}
	return strings.Count(string(text), "\n")
}

// listens reports whether the gateway accepts connections.
func (r *replica) listens(t *testing.T) bool {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.endpoint)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// proxyProgram returns where a proxy is installed, which is not in the PATH of all users.
func proxyProgram(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	return "/usr/sbin/" + name
}

// exampleOf returns a copy of a proxy's example, in which the pairs of texts are replaced.
func exampleOf(t *testing.T, name string, oldnew ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "proxies", name))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(oldnew); i += 2 {
		if !strings.Contains(string(text), oldnew[i]) {
			t.Fatalf("%s lacks %q", name, oldnew[i])
		}
	}
	file := filepath.Join(t.TempDir(), name)
	write(t, file, strings.NewReplacer(oldnew...).Replace(string(text)))
	return file
}

// passes has a program check its configuration.
func passes(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v (it is a package of the distribution)\n%s", name, err, out)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}
