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
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what must come soon, on a busy machine.
const patience = 30 * time.Second

// eventually waits until check holds.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !check(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// program returns a path under which the test binary is the named command of TestMain.
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

// anyPort lets the system choose where the gateway listens.
const anyPort = `
gateway { listen = "127.0.0.1:0" }
admin { listen = "127.0.0.1:0" }
`

// configure writes files, by name, into a configuration folder whose gateway listens on any port.
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

// served is a gateway as a process of its own.
type servedProcess struct {
	*exec.Cmd

	endpoint, admin string

	mu  sync.Mutex
	log strings.Builder
	eof chan struct{}
}

// serve starts promptweir serve and waits until it listens. It is killed at the test's end if it still runs.
func serve(t *testing.T, config string, env ...string) *servedProcess {
	t.Helper()
	return serveWith(t, nil, config, env...)
}

// serveWith is serve with more flags.
func serveWith(t *testing.T, flags []string, config string, env ...string) *servedProcess {
	t.Helper()
	flags = append([]string{"serve", "--config", config, "--log-format", "json"}, flags...)
	// Not t.Context(): the process outlives it until the cleanup below.
	command := exec.CommandContext(context.Background(), program(t, "promptweir"), flags...)
	p := &servedProcess{Cmd: command, eof: make(chan struct{})}
	p.Env = append(os.Environ(), env...)
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

// read collects the log, and learns from it where the gateway listens.
func (p *servedProcess) read(stderr io.Reader, listening chan<- struct{}) {
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

func (p *servedProcess) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// page asks the admin listener for a page.
func (p *servedProcess) page(t *testing.T, path string, headers ...string) (status int, text string) {
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

// stop tells the process to end and returns its exit code.
func (p *servedProcess) stop(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	if err := p.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.eof:
	case <-time.After(patience):
		t.Fatalf("still running %v after %v:\n%s", patience, signal, p.logged())
	}
	_ = p.Wait() // the exit code says it
	return p.ProcessState.ExitCode()
}

// answer is what came back for a request.
type answer struct {
	status int
	header http.Header
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

// names are those of the prompts in a list.
func (a *answer) names() string {
	var names []string
	for _, p := range a.Result.Prompts {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

// text is that of a prompt's first message.
func (a *answer) text() string {
	if len(a.Result.Messages) == 0 {
		return ""
	}
	return a.Result.Messages[0].Content.Text
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// post sends a request of the modern era. Params are a JSON object without _meta, and name is the prompt's, for a get.
func (p *servedProcess) post(t *testing.T, method, name, params, token string) *http.Response {
	t.Helper()
	return p.postMeta(t, modernMeta, method, name, params, token)
}

func (p *servedProcess) postMeta(t *testing.T, meta, method, name, params, token string) *http.Response {
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

func (p *servedProcess) ask(t *testing.T, method, name, params, token string) *answer {
	t.Helper()
	response := p.post(t, method, name, params, token)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := &answer{status: response.StatusCode, header: response.Header, body: body}
	if err := json.Unmarshal(body, a); err != nil {
		t.Fatalf("%s %s: %v\n%s", method, name, err, body)
	}
	return a
}

func (p *servedProcess) list(t *testing.T, token string) *answer {
	t.Helper()
	return p.ask(t, "prompts/list", "", "{}", token)
}

// get asks for a prompt; arguments are pairs of name and value.
func (p *servedProcess) get(t *testing.T, name, token string, arguments ...string) *answer {
	t.Helper()
	given := map[string]string{}
	for i := 0; i < len(arguments); i += 2 {
		given[arguments[i]] = arguments[i+1]
	}
	params, err := json.Marshal(map[string]any{"name": name, "arguments": given})
	if err != nil {
		t.Fatal(err)
	}
	return p.ask(t, "prompts/get", name, string(params), token)
}

// daemon starts greeterd at an address and returns where it listens. With a port that was in use before, it tries
// until the system has let go of it.
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
		line, _ := bufio.NewReader(stdout).ReadBytes('\n') // empty when it could not listen
		at = string(bytes.TrimSpace(line))
		if at == "" {
			_ = command.Wait() // it said why on stderr
		}
		return at != ""
	})
	return command, at
}
