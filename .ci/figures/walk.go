package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// The path of a get is found by running one. The gateway is built with go build -overlay, which leaves the checkout as it is:
// each function of the module begins with a call that writes its name and the goroutine to a file. A goroutine profile, taken
// while the upstream waits, shows the frames on the stack.

// tracePackage is the package that the overlay adds.
const tracePackage = "figurestrace"

const traceSource = `package figurestrace

import (
	"bytes"
	"os"
	"runtime"
	"sync"
)

var (
	mu  sync.Mutex
	out *os.File
)

func init() {
	if path := os.Getenv("FIGURES_TRACE"); path != "" {
		out, _ = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	}
}

// Enter writes "GOROUTINE FUNCTION" on a line.
func Enter(function string) {
	if out == nil {
		return
	}
	var stack [64]byte
	fields := bytes.Fields(stack[:runtime.Stack(stack[:], false)])
	mu.Lock()
	defer mu.Unlock()
	_, _ = out.WriteString(string(fields[1]) + " " + function + "\n")
}
`

// get is one kind of prompts/get.
type get struct {
	name   string
	legacy bool
}

// printWalks runs one get of each era and prints its path.
func printWalks(ctx context.Context, m *module) error {
	dir, err := os.MkdirTemp("", "figures")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := buildTraced(ctx, m, dir); err != nil {
		return err
	}
	fmt.Print("\n## One get\n\n" +
		"While the upstream waits: the frames of this module on the goroutine that serves the request, down to the RoundTrip of net/http,\n" +
		"and the functions that it has called until then, each counted at its first call. A change of file is a function that stands in\n" +
		"another file than the one before it.\n\n" +
		"| | frames | files of the frames | functions | their files | changes of file |\n| --- | --- | --- | --- | --- | --- |\n")
	var stacks strings.Builder
	for _, g := range []get{{"2025-11-25", true}, {"2026-07-28", false}} {
		w, err := walk(ctx, m, dir, g)
		if err != nil {
			return fmt.Errorf("a get of %s: %w", g.name, err)
		}
		fmt.Printf("| %s | %d | %d | %d | %d | %d |\n", g.name, len(w.frames), distinct(w.frameFiles), len(w.entered), distinct(w.files()), changes(w.files()))
		fmt.Fprintf(&stacks, "\nThe frames of %s, the last call first, each with its file:\n\n```\n%s\n```\n", g.name, strings.Join(w.frames, "\n"))
	}
	fmt.Print(stacks.String())
	return nil
}

// buildTraced builds the gateway of a checkout with traced functions.
func buildTraced(ctx context.Context, m *module, dir string) error {
	replace := map[string]string{}
	add := func(path string, text []byte) error {
		copied := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		replace[path] = copied
		return os.WriteFile(copied, text, 0o600)
	}
	if err := add(filepath.Join(m.dir, tracePackage, "trace.go"), []byte(traceSource)); err != nil {
		return err
	}
	for _, f := range m.files {
		if forTests(f.path) || strings.HasPrefix(f.path, "examples/") {
			continue
		}
		if err := add(filepath.Join(m.dir, f.path), traced(m.path, f)); err != nil {
			return err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return err
	}
	if err := command(ctx, m.dir, "go", "build", "-overlay", file, "-o", filepath.Join(dir, "promptweir"), "./cmd/promptweir"); err != nil {
		return err
	}
	return command(ctx, m.dir, "go", "build", "-o", filepath.Join(dir, "reference"), "./examples/bench/reference")
}

// traced returns the text of a file with a call of Enter in each function. It adds no lines, so that line numbers stay the same.
func traced(module string, f *file) []byte {
	var text []byte
	at := 0
	insert := func(offset int, s string) {
		text = append(append(text, f.text[at:offset]...), s...)
		at = offset
	}
	bodies := 0
	for _, d := range f.ast.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
			if bodies++; bodies == 1 {
				insert(f.fset.Position(f.ast.Name.End()).Offset, fmt.Sprintf("; import figuresTrace %q", module+"/"+tracePackage))
			}
			insert(f.fset.Position(d.Body.Lbrace).Offset+1, fmt.Sprintf("figuresTrace.Enter(%q);", fmt.Sprintf("%s %s:%d", f.path, d.Name.Name, f.line(d.Pos()))))
		}
	}
	return append(text, f.text[at:]...)
}

// walked is the path of one get.
type walked struct {
	frames, frameFiles []string // the last call first
	entered            []string // "file function", in the order of their first calls
}

func (w *walked) files() []string {
	files := make([]string, len(w.entered))
	for i, e := range w.entered {
		files[i], _, _ = strings.Cut(e, " ")
	}
	return files
}

func distinct(values []string) int {
	seen := map[string]bool{}
	for _, v := range values {
		seen[v] = true
	}
	return len(seen)
}

func changes(values []string) (n int) {
	for i := range values {
		if i > 0 && values[i] != values[i-1] {
			n++
		}
	}
	return n
}

// upstreamDelay is how long the upstream takes for a get: time enough for a profile.
const upstreamDelay = time.Second

// walk runs the gateway and follows its second get, which finds its caches filled.
func walk(ctx context.Context, m *module, dir string, g get) (*walked, error) {
	args := []string{"upstream", "-delay", upstreamDelay.String()}
	if g.legacy {
		args = append(args, "-legacy")
	}
	up, err := start(ctx, nil, filepath.Join(dir, "reference"), args...)
	if err != nil {
		return nil, err
	}
	defer up.stop()
	upstream, err := up.attr("endpoint")
	if err != nil {
		return nil, err
	}
	trace, hcl := filepath.Join(dir, "trace"), filepath.Join(dir, "gateway.hcl")
	_ = os.Remove(trace) // of the get before
	const config = "gateway { listen = \"127.0.0.1:0\" }\nadmin { listen = \"127.0.0.1:0\" }\nteam \"t\" {\n  upstream \"up\" { url = %q }\n}\n"
	if err := os.WriteFile(hcl, fmt.Appendf(nil, config, upstream), 0o600); err != nil {
		return nil, err
	}
	gateway, err := start(ctx, []string{"FIGURES_TRACE=" + trace}, filepath.Join(dir, "promptweir"), "serve", "--pprof", "--config", hcl)
	if err != nil {
		return nil, err
	}
	defer gateway.stop()
	admin, err := gateway.attr("admin")
	if err != nil {
		return nil, err
	}
	endpoint, err := gateway.attr("endpoint")
	if err != nil {
		return nil, err
	}
	c := client{endpoint: endpoint, legacy: g.legacy}
	if err := errors.Join(ready(ctx, admin), c.initialize(ctx), c.get(ctx)); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, gateway.log())
	}
	return follow(ctx, m, c, admin, trace)
}

// follow makes a get and takes the profile while the upstream waits.
func follow(ctx context.Context, m *module, c client, admin, trace string) (*walked, error) {
	before, err := os.ReadFile(trace)
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- c.get(ctx) }()
	time.Sleep(upstreamDelay / 2)
	_, profile, err := call(ctx, http.MethodGet, admin+"/debug/pprof/goroutine?debug=2", "", nil)
	after, readErr := os.ReadFile(trace)
	if err := errors.Join(err, readErr, <-done); err != nil {
		return nil, err
	}
	for goroutine := range strings.SplitSeq(string(profile), "\n\n") {
		id := servingID.FindStringSubmatch(goroutine)
		if id == nil || !strings.Contains(goroutine, "net/http.(*Transport).RoundTrip(") || !strings.Contains(goroutine, "net/http.(*conn).serve(") {
			continue
		}
		w := &walked{}
		w.frames, w.frameFiles = ownFrames(m, goroutine)
		for line := range strings.Lines(string(after[len(before):])) {
			who, function, _ := strings.Cut(strings.TrimSpace(line), " ")
			if who == id[1] && !slices.Contains(w.entered, function) {
				w.entered = append(w.entered, function)
			}
		}
		return w, nil
	}
	return nil, errors.New("no goroutine of the profile serves a request and waits for net/http's RoundTrip")
}

var servingID = regexp.MustCompile(`^\s*goroutine (\d+) `)

// ownFrames returns the frames of the module's functions on the stack of a goroutine.
func ownFrames(m *module, goroutine string) (frames, files []string) {
	lines := strings.Split(goroutine, "\n")
	for i := 1; i+1 < len(lines); i += 2 {
		function, place := lines[i], strings.TrimSpace(lines[i+1])
		if !strings.HasPrefix(function, m.path+"/") {
			continue
		}
		function = strings.TrimPrefix(function[:strings.LastIndex(function, "(")], m.path+"/")
		path, _, _ := strings.Cut(strings.TrimPrefix(place, m.dir+"/"), ":")
		frames = append(frames, fmt.Sprintf("%-60s %s", function, path))
		files = append(files, path)
	}
	return frames, files
}

// client is an MCP client.
type client struct {
	endpoint, session string
	legacy            bool
}

func (c *client) initialize(ctx context.Context) error {
	if !c.legacy {
		return nil
	}
	header, _, err := call(ctx, http.MethodPost, c.endpoint, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{},"clientInfo":{"name":"figures","version":"1"}}}`, nil)
	if err != nil {
		return err
	}
	c.session = header.Get("Mcp-Session-Id")
	_, _, err = call(ctx, http.MethodPost, c.endpoint, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, c.header())
	return err
}

func (c *client) header() map[string]string {
	if c.legacy {
		return map[string]string{"Mcp-Session-Id": c.session, "Mcp-Protocol-Version": "2025-11-25"}
	}
	return map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "prompts/get", "Mcp-Name": "up.p00001"}
}

func (c *client) get(ctx context.Context) error {
	meta := ""
	if !c.legacy {
		meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
			`"io.modelcontextprotocol/clientInfo":{"name":"figures","version":"1"}}`
	}
	_, body, err := call(ctx, http.MethodPost, c.endpoint, `{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"up.p00001","arguments":{}`+meta+`}}`, c.header())
	if err == nil && !bytes.Contains(body, []byte(`"messages"`)) {
		return fmt.Errorf("prompts/get: %s", body)
	}
	return err
}

func ready(ctx context.Context, admin string) error {
	var err error
	for range 500 {
		if _, _, err = call(ctx, http.MethodGet, admin+"/readyz", "", nil); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

func call(ctx context.Context, method, url, body string, header map[string]string) (http.Header, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s: %s", method, url, response.Status, text)
	}
	return response.Header, text, err
}

// process is a running program.
type process struct {
	cmd *exec.Cmd

	mu   sync.Mutex // guards said
	said bytes.Buffer
}

func start(ctx context.Context, env []string, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, name, args...)}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), env...), p
	return p, p.cmd.Start()
}

// Write collects the log of the program.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// attr waits until the program has logged an attribute and returns its value.
func (p *process) attr(name string) (string, error) {
	pattern := regexp.MustCompile(`\b` + name + `="?([^"\s]+)"?(\s.*)?\n`)
	for range 1000 {
		if match := pattern.FindStringSubmatch(p.log()); match != nil {
			return match[1], nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return "", fmt.Errorf("no %s= in the log:\n%s", name, p.log())
}

func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // killed
}
