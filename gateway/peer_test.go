package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// peer is an MCP server written by hand, so that every byte that it says and hears is known: legacy, over HTTP,
// without sessions, with streams for changes. One that is modern answers server/discover as well and nothing legacy.
type peer struct {
	t    testing.TB
	name string
	url  string
	// settings are further attributes of its upstream block.
	settings string
	modern   bool
	// capabilities are what it declares.
	capabilities string
	http         *httptest.Server
	address      string

	mu      sync.Mutex // guards what follows
	prompts []string
	// results are what it answers to a method: a result, or an error where it begins with "error:".
	results map[string]string
	// handle is asked first, where it is set; it reports whether it has answered.
	handle  func(w http.ResponseWriter, r *http.Request, call heard) bool
	calls   []heard
	streams map[chan string]string // to the id that each was opened with
	lists   int
}

// heard is a request as a peer got it.
type heard struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage
	header http.Header
}

// newPeer starts a server with prompts, each a name or a whole definition.
func newPeer(t testing.TB, name string, prompts ...string) *peer {
	p := &peer{
		t: t, name: name, capabilities: `{"prompts":{"listChanged":true},"completions":{}}`,
		results: map[string]string{}, streams: map[chan string]string{},
	}
	p.prompts = definitions(prompts)
	p.http = httptest.NewServer(p)
	p.url = p.http.URL
	p.address = p.http.Listener.Addr().String()
	t.Cleanup(func() { p.stop() })
	return p
}

func newModernPeer(t testing.TB, name string, prompts ...string) *peer {
	p := newPeer(t, name, prompts...)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.modern = true
	return p
}

func definitions(prompts []string) []string {
	all := make([]string, len(prompts))
	for i, prompt := range prompts {
		all[i] = prompt
		if !strings.HasPrefix(prompt, "{") {
			all[i] = fmt.Sprintf(`{"name":%q}`, prompt)
		}
	}
	return all
}

// stop ends the server; its address stays free for restart.
func (p *peer) stop() {
	_ = p.http.Listener.Close() // first, or whoever comes back at once is waited for
	p.http.CloseClientConnections()
	p.http.Close()
}

func (p *peer) restart() {
	p.t.Helper()
	var listener net.Listener
	eventually(p.t, "the address is free again", func() (ok bool) {
		var err error
		listener, err = net.Listen("tcp", p.address) //nolint:noctx // a test
		return err == nil
	})
	p.http = &httptest.Server{Listener: listener, Config: &http.Server{Handler: p}} //nolint:gosec // a test
	p.http.Start()
}

// set replaces the prompts without saying so.
func (p *peer) set(prompts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prompts = definitions(prompts)
}

// offer replaces the prompts and says so.
func (p *peer) offer(prompts ...string) {
	p.set(prompts...)
	p.announce()
}

// announce says list_changed on all streams.
func (p *peer) announce() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for stream, id := range p.streams {
		params := ""
		if id != "" {
			params = `,"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}`
		}
		stream <- `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"` + params + `}`
	}
}

// synchronize waits until the gateway has read all that was said to it on the streams so far, by asking it for something.
func (p *peer) synchronize() {
	p.t.Helper()
	p.mu.Lock()
	for stream := range p.streams {
		stream <- `{"jsonrpc":"2.0","id":"synchronize","method":"ping"}`
	}
	streams := len(p.streams)
	p.mu.Unlock()
	eventually(p.t, p.name+" is answered on each stream", func() bool {
		answers := 0
		for _, call := range p.heard("") {
			if string(call.ID) == `"synchronize"` {
				answers++
			}
		}
		return answers == streams
	})
}

// answer sets the result of a method, or its error where text begins with "error:".
func (p *peer) answer(method, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.results[method] = text
}

func (p *peer) intercept(handle func(w http.ResponseWriter, r *http.Request, call heard) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handle = handle
}

// heard returns the requests of a method, in order.
func (p *peer) heard(method string) []heard {
	p.mu.Lock()
	defer p.mu.Unlock()
	var calls []heard
	for _, call := range p.calls {
		if call.Method == method {
			calls = append(calls, call)
		}
	}
	return calls
}

// forget forgets what was heard.
func (p *peer) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = nil
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && !p.modern {
		p.serveStream(w, r, "")
		return
	}
	body, err := io.ReadAll(r.Body)
	call := heard{header: r.Header.Clone()}
	if err != nil || r.Method != http.MethodPost || json.Unmarshal(body, &call) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	p.mu.Lock()
	p.calls = append(p.calls, call)
	handle, modern := p.handle, p.modern
	p.mu.Unlock()
	p.conform(call, body, modern)
	switch {
	case handle != nil && handle(w, r, call):
	case call.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case modern && call.Method == "subscriptions/listen":
		p.serveStream(w, r, string(call.ID))
	default:
		p.respond(w, call, p.resultOf(call.Method))
	}
}

// conform holds what the gateway says against the schemas, less arguments that are not strings: no revision has them,
// and they travel as the client sent them.
func (p *peer) conform(call heard, body []byte, modern bool) {
	var params struct{ Arguments map[string]json.RawMessage }
	if call.Method == "prompts/get" && json.Unmarshal(call.Params, &params) == nil {
		for _, value := range params.Arguments {
			if value[0] != '"' {
				return
			}
		}
	}
	revision := "2025-11-25"
	if modern || call.Method == "server/discover" {
		revision = latest
	}
	conform(p.t, revision, "", string(body))
}

func (p *peer) respond(w http.ResponseWriter, call heard, text string) {
	w.Header().Set("Content-Type", "application/json")
	kind := "result"
	if failure, ok := strings.CutPrefix(text, "error:"); ok {
		kind, text = "error", failure
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%q:%s}`, call.ID, kind, text)
}

func (p *peer) resultOf(method string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text, ok := p.results[method]; ok {
		return text
	}
	switch {
	case method == "initialize" && !p.modern:
		return `{"protocolVersion":"2025-11-25","serverInfo":{"name":"peer","version":"1"},"capabilities":` + p.capabilities + `}`
	case method == "server/discover" && p.modern:
		return `{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"public","capabilities":` + p.capabilities + `}`
	case method == "prompts/list":
		p.lists++
		return `{"prompts":[` + strings.Join(p.prompts, ",") + `]}`
	case method == "prompts/get":
		return `{"messages":[{"role":"user","content":{"type":"text","text":"from ` + p.name + `"}}]}`
	case method == "completion/complete":
		return `{"completion":{"values":["from ` + p.name + `"]}}`
	case method == "ping":
		return `{}`
	}
	return `error:{"code":-32601,"message":"Method not found"}`
}

func (p *peer) serveStream(w http.ResponseWriter, r *http.Request, id string) {
	messages := make(chan string, 100)
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	if id != "" {
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":%s},\"notifications\":{\"promptsListChanged\":true}}}\n\n", id)
	}
	p.mu.Lock()
	p.streams[messages] = id
	p.mu.Unlock()
	flusher := http.NewResponseController(w)
	_ = flusher.Flush() // noticed below
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.streams, messages)
	}()
	for {
		select {
		case message := <-messages:
			fmt.Fprintf(w, "data: %s\n\n", message)
			_ = flusher.Flush() // the gateway has gone
		case <-r.Context().Done():
			return
		}
	}
}

// watched waits until the gateway would hear of a change.
func (p *peer) watched() *peer {
	p.t.Helper()
	eventually(p.t, p.name+" has a stream", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.streams) > 0
	})
	return p
}
