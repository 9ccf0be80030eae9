package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
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

// patience is how long a test waits for something that takes milliseconds on an idle machine.
const patience = time.Minute

// eventually waits until check returns true.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !check(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not true after %v: %s", patience, what)
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
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// gatewayProcess is promptweir serve as a process of its own.
type gatewayProcess struct {
	*exec.Cmd

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

// startGateway starts a program with the command serve, once prepare has changed what is to be
// different.
func startGateway(t *testing.T, program, config string, prepare func(*gatewayProcess)) *gatewayProcess {
	t.Helper()
	// Not t.Context(), which ends before the cleanup below.
	command := exec.CommandContext(context.Background(), program, "serve", "--config", config, "--log-format", "json")
	p := &gatewayProcess{Cmd: command, eof: make(chan struct{})}
	p.Env = os.Environ()
	prepare(p)
	stderr, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	listening := make(chan struct{})
	go p.read(stderr, listening)
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.eof
		_ = p.Wait()
		if t.Failed() {
			t.Logf("log of the gateway:\n%s", p.logged())
		}
	})
	select {
	case <-listening:
	case <-p.eof:
		t.Fatalf("the gateway did not start:\n%s", p.logged())
	case <-time.After(patience):
		t.Fatalf("the gateway did not listen:\n%s", p.logged())
	}
	return p
}

// read collects the log, and takes the addresses of the listeners from it.
func (p *gatewayProcess) read(stderr io.Reader, listening chan<- struct{}) {
	defer close(p.eof)
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		p.mu.Lock()
		p.log.WriteString(lines.Text() + "\n")
		p.mu.Unlock()
		var record struct{ Msg, Endpoint, Admin string }
		if json.Unmarshal(lines.Bytes(), &record) == nil && record.Msg == "listening" {
			p.endpoint, p.admin = record.Endpoint, record.Admin
			close(listening)
		}
	}
}

func (p *gatewayProcess) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// page gets a page of the admin listener. Headers are pairs of name and value.
func (p *gatewayProcess) page(t *testing.T, path string, headers ...string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.admin+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
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

// awaitUpstreams waits until the gateway has tried to list each upstream. Clients wait for that in
// its first two seconds only.
func (p *gatewayProcess) awaitUpstreams(t *testing.T) {
	t.Helper()
	eventually(t, "each upstream was tried", func() bool {
		_, page := p.page(t, "/readyz")
		var readiness admin.Readiness
		if err := json.Unmarshal([]byte(page), &readiness); err != nil {
			t.Fatalf("%v\n%s", err, page)
		}
		return !slices.ContainsFunc(readiness.Upstreams, func(u admin.UpstreamHealth) bool { return u.Reason == "" && !u.Listed })
	})
}

// stop sends SIGTERM, waits for the process to end and returns its exit code.
func (p *gatewayProcess) stop(t *testing.T) int {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	return p.end(t)
}

// end waits for the process to end and returns its exit code, -1 if a signal killed it.
func (p *gatewayProcess) end(t *testing.T) int {
	t.Helper()
	select {
	case <-p.eof:
	case <-time.After(patience):
		t.Fatalf("still running after %v:\n%s", patience, p.logged())
	}
	_ = p.Wait() // its error repeats the exit code
	return p.ProcessState.ExitCode()
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

// post sends a request of the modern era. Params is a JSON object without _meta; name is that of
// the prompt, for a get.
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
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.endpoint, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", method)
	if name != "" {
		r.Header.Set("Mcp-Name", name)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return response
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

// daemon starts greeterd and returns the address at which it listens. It tries again while the port
// is in use, because the system releases the port of a killed process with a delay.
func daemon(t *testing.T, address string) (*exec.Cmd, string) {
	t.Helper()
	path := program(t, "greeterd")
	var (
		command *exec.Cmd
		at      string
	)
	eventually(t, "an HTTP upstream at "+address, func() bool {
		ctx, cancel := context.WithCancel(context.Background())
		t.Cleanup(cancel)
		command = exec.CommandContext(ctx, path, address)
		stdout, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		line, _ := bufio.NewReader(stdout).ReadBytes('\n') // empty if it could not listen
		at = string(bytes.TrimSpace(line))
		if at == "" {
			_ = command.Wait() // the reason is on standard error
		}
		return at != ""
	})
	return command, at
}
