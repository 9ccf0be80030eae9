package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/admin"
)

// timeout bounds waits for events that take milliseconds on an idle machine.
const timeout = time.Minute

// eventually waits until check returns true.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(timeout); !check(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not true after %v: %s", timeout, what)
		}
	}
}

// program returns a path at which the test binary is the named command of TestMain.
func program(t *testing.T, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// anyPort lets the system choose the ports.
const anyPort = `
gateway {
  listen      = "127.0.0.1:0"
  drain_delay = "0s"
}
admin { listen = "127.0.0.1:0" }
`

// configure writes the files, by name, into a new configuration folder. Its gateway listens on any
// port.
func configure(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	files["listen.hcl"] = anyPort
	for name, text := range files {
		writeFile(t, folder, name, text)
	}
	return folder
}

// greeterTeam is the file of a team with a greeter.
func greeterTeam(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("team \"greeters\" {\n  upstream \"greeter\" { command = [%q] }\n}\n", program(t, "greeter"))
}

// webTeam is the file of a team with a server at a URL.
func webTeam(url string) string {
	return fmt.Sprintf("team \"greeters\" {\n  upstream \"web\" { url = %q }\n}\n", url)
}

func writeFile(t *testing.T, folder, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runHere runs a command in this process.
func runHere(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, streams{in: strings.NewReader(""), out: &out, err: &errs})
	return out.String(), errs.String(), code
}

// gatewayProcess is promptweir serve as a process of its own.
type gatewayProcess struct {
	process

	endpoint, admin string

	mu  sync.Mutex
	log strings.Builder
	eof chan struct{}
}

// serve starts promptweir serve and waits until it listens. If it still runs at the end of the
// test, it is killed.
func serve(t *testing.T, config string, env ...string) *gatewayProcess {
	t.Helper()
	return serveWith(t, nil, config, env...)
}

// serveWith is serve with additional flags.
func serveWith(t *testing.T, flags []string, config string, env ...string) *gatewayProcess {
	t.Helper()
	return startGateway(t, program(t, "promptweir"), config, func(p *gatewayProcess) {
		p.Args = append(p.Args, flags...)
		p.Env = append(p.Env, env...)
	})
}

// startGateway starts a program with the command serve. prepare may change the process before.
func startGateway(t *testing.T, program, config string, prepare func(*gatewayProcess)) *gatewayProcess {
	t.Helper()
	p := newGatewayProcess(program, config)
	prepare(p)
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("log of the gateway:\n%s", p.logged())
		}
	})
	if err := p.launch(); err != nil {
		t.Fatal(err)
	}
	return p
}

func newGatewayProcess(program, config string) *gatewayProcess {
	// The test's cleanup ends it, after the test's context has ended.
	command := exec.CommandContext(context.Background(), program, "serve", config, "--log-format", "json")
	command.Env = os.Environ()
	return &gatewayProcess{process: process{command}, eof: make(chan struct{})}
}

// launch starts the process, and waits until it listens.
func (p *gatewayProcess) launch() error {
	stderr, err := p.StderrPipe()
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	listening := make(chan struct{})
	go p.read(stderr, listening)
	select {
	case <-listening:
		return nil
	case <-p.eof:
		return errors.New("the gateway did not start:\n" + p.logged())
	case <-time.After(timeout):
		return errors.New("the gateway did not listen:\n" + p.logged())
	}
}

func (p *gatewayProcess) kill() {
	if p.Process == nil {
		return
	}
	_ = p.Process.Kill()
	<-p.eof
	_ = p.Wait()
}

// read collects the log, and takes the addresses of the listeners from it.
func (p *gatewayProcess) read(stderr io.Reader, listening chan<- struct{}) {
	defer close(p.eof)
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		p.mu.Lock()
		p.log.WriteString(lines.Text() + "\n")
		p.mu.Unlock()
		if p.readAddresses(lines.Bytes()) {
			close(listening)
		}
	}
}

// readAddresses takes the addresses of the listeners from a record of the log, if that has them.
func (p *gatewayProcess) readAddresses(line []byte) bool {
	var record struct{ Msg, Endpoint, Admin string }
	if json.Unmarshal(line, &record) != nil || record.Msg != "listening" {
		return false
	}
	p.endpoint, p.admin = record.Endpoint, record.Admin
	return true
}

func (p *gatewayProcess) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// page gets a page of the admin listener.
func (p *gatewayProcess) page(t *testing.T, path string) (status int, text string) {
	t.Helper()
	return p.send(t, http.MethodGet, path)
}

// send makes a request of the admin listener.
func (p *gatewayProcess) send(t *testing.T, method, path string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, p.admin+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// awaitUpstreams waits until the gateway has tried to list each upstream. A client's list waits only for the
// first two seconds.
func (p *gatewayProcess) awaitUpstreams(t *testing.T) {
	t.Helper()
	eventually(t, "each upstream was tried", func() bool {
		_, page := p.page(t, "/readyz")
		var readiness admin.Readiness
		if err := json.Unmarshal([]byte(page), &readiness); err != nil {
			t.Fatalf("%v\n%s", err, page)
		}
		return !slices.ContainsFunc(readiness.Upstreams, func(u admin.UpstreamHealth) bool { return u.Problem == nil && !u.Listed })
	})
}

// awaitStatus waits until a page of the admin listener has a status.
func (p *gatewayProcess) awaitStatus(t *testing.T, path string, want int) {
	t.Helper()
	eventually(t, fmt.Sprint(path, " is ", want), func() bool { status, _ := p.page(t, path); return status == want })
}

// process is a process that a test can signal.
type process struct{ *exec.Cmd }

func (p process) signal(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := p.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// stop sends SIGTERM, waits for the process to end and returns its exit code.
func (p *gatewayProcess) stop(t *testing.T) int {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	return p.end(t)
}

// end waits for the process to end and returns its exit code, -1 if a signal killed it.
func (p *gatewayProcess) end(t *testing.T) int {
	t.Helper()
	select {
	case <-p.eof:
	case <-time.After(timeout):
		t.Fatalf("still running after %v:\n%s", timeout, p.logged())
	}
	_ = p.Wait() // its error repeats the exit code
	return p.ProcessState.ExitCode()
}

// stdioProcess is promptweir stdio as a process of its own.
type stdioProcess struct {
	process

	in    io.WriteCloser
	out   io.ReadCloser
	lines *bufio.Scanner // of out
}

func startStdio(t *testing.T, config string, log io.Writer, flags ...string) *stdioProcess {
	t.Helper()
	args := append([]string{"stdio", "--config", config}, flags...)
	p := &stdioProcess{process: process{exec.CommandContext(context.Background(), program(t, "promptweir"), args...)}}
	p.Stderr = log
	var err error
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if p.out, err = p.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(p.out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

func (p *stdioProcess) send(t *testing.T, message string) {
	t.Helper()
	if _, err := io.WriteString(p.in, message+"\n"); err != nil {
		t.Fatal(err)
	}
}

// receive returns the next response.
func (p *stdioProcess) receive(t *testing.T) (response rpcResponse) {
	t.Helper()
	if !p.lines.Scan() {
		t.Fatalf("it ended instead of answering: %v", p.lines.Err())
	}
	if err := json.Unmarshal(p.lines.Bytes(), &response); err != nil {
		t.Fatalf("%v: %s", err, p.lines.Bytes())
	}
	return response
}

// rpcResponse is the JSON-RPC response to a request, with its HTTP status, header and body.
type rpcResponse struct {
	status int
	header http.Header
	closes bool // it says that the connection is closed
	body   []byte
	Result struct {
		Prompts  []struct{ Name string }
		Messages []struct{ Content struct{ Text string } }
	}
	Error *struct {
		Code    int
		Message string
		Data    struct{ Upstream, Reason string }
	}
}

// names returns the names in a list, separated by spaces.
func (r *rpcResponse) names() string {
	var names []string
	for _, p := range r.Result.Prompts {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

// text returns the text of a prompt's first message.
func (r *rpcResponse) text() string {
	if len(r.Result.Messages) == 0 {
		return ""
	}
	return r.Result.Messages[0].Content.Text
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// post sends a request of the modern era. Params is a JSON object without _meta; name is the name of the
// prompt, for a get.
func (p *gatewayProcess) post(t *testing.T, method, name, params, token string) *http.Response {
	t.Helper()
	return p.postMeta(t, modernMeta, method, name, params, token)
}

func (p *gatewayProcess) postMeta(t *testing.T, meta, method, name, params, token string) *http.Response {
	t.Helper()
	if params != "{}" {
		meta += ","
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + meta + strings.TrimPrefix(params, "{") + `}`
	r := modernRequest(t.Context(), p.endpoint, method, body, token)
	if name != "" {
		r.Header.Set("Mcp-Name", name)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// modernRequest returns a request of the modern era. An empty token is left out.
func modernRequest(ctx context.Context, url, method, body, token string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	r.RequestURI = "" // only a server's request may have it
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method,
	} {
		r.Header.Set(name, value)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

// subscribe opens a stream of notifications about prompts.
func (p *gatewayProcess) subscribe(t *testing.T, token string) *http.Response {
	t.Helper()
	return p.post(t, "subscriptions/listen", "", `{"notifications":{"promptsListChanged":true}}`, token)
}

func (p *gatewayProcess) call(t *testing.T, method, name, params, token string) *rpcResponse {
	t.Helper()
	response := p.post(t, method, name, params, token)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	decoded := &rpcResponse{status: response.StatusCode, header: response.Header, closes: response.Close, body: body}
	if err := json.Unmarshal(body, decoded); err != nil {
		t.Fatalf("%s %s: %v\n%s", method, name, err, body)
	}
	return decoded
}

func (p *gatewayProcess) list(t *testing.T, token string) *rpcResponse {
	t.Helper()
	return p.call(t, "prompts/list", "", "{}", token)
}

// get gets a prompt. Arguments are pairs of name and value.
func (p *gatewayProcess) get(t *testing.T, name, token string, arguments ...string) *rpcResponse {
	t.Helper()
	given := map[string]string{}
	for i := 0; i < len(arguments); i += 2 {
		given[arguments[i]] = arguments[i+1]
	}
	params, err := json.Marshal(map[string]any{"name": name, "arguments": given})
	if err != nil {
		t.Fatal(err)
	}
	return p.call(t, "prompts/get", name, string(params), token)
}
