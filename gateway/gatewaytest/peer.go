package gatewaytest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// Peer is an MCP server over HTTP, without sessions, with streams for changes. By default it is a
// legacy one; a modern one answers server/discover, and no request of the legacy era.
type Peer struct {
	TB testing.TB
	// Name is the name of its upstream block, and URL its address.
	Name, URL string
	// Settings are further attributes of its upstream block.
	Settings string
	// Capabilities are those that it declares.
	Capabilities string

	modern bool
	server *upstreamtest.Server

	mu      sync.Mutex // guards the fields below
	prompts []string
	// results are its results by method, or its errors, which begin with "error:".
	results map[string]string
	// handle, if set, may respond to a request instead of the peer; it reports whether it did.
	handle  func(w http.ResponseWriter, r *http.Request, call Call) bool
	calls   []Call
	streams map[chan string]string // to the id of the request that opened it
}

// Call is a message that a peer received.
type Call struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage
	Header http.Header
}

// NewPeer starts a peer of the legacy era. Its prompts are names or whole definitions.
func NewPeer(tb testing.TB, name string, prompts ...string) *Peer {
	tb.Helper()
	return newPeer(tb, false, name, prompts)
}

// NewModernPeer starts a peer of the modern era.
func NewModernPeer(tb testing.TB, name string, prompts ...string) *Peer {
	tb.Helper()
	return newPeer(tb, true, name, prompts)
}

func newPeer(tb testing.TB, modern bool, name string, prompts []string) *Peer {
	tb.Helper()
	p := &Peer{
		TB: tb, Name: name, Capabilities: `{"prompts":{"listChanged":true},"completions":{}}`, modern: modern,
		prompts: definitions(prompts), results: map[string]string{}, streams: map[chan string]string{},
	}
	p.server = upstreamtest.Serve(tb, p)
	p.URL = p.server.URL
	return p
}

// NewDownPeer returns a peer "gone" that does not listen.
func NewDownPeer(tb testing.TB) *Peer {
	tb.Helper()
	p := NewPeer(tb, "gone")
	p.Stop()
	return p
}

// NewSilentPeer starts a peer that receives requests and never responds.
func NewSilentPeer(tb testing.TB, name string) *Peer {
	tb.Helper()
	p := NewPeer(tb, name)
	p.Settings = `timeout = "60s"`
	p.Intercept(func(_ http.ResponseWriter, r *http.Request, _ Call) bool {
		<-r.Context().Done()
		return true
	})
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

// Stop stops the server and breaks its connections. It may be called again.
func (p *Peer) Stop() { p.server.Down() }

// Restart starts the server again at the same address, which nobody else has got meanwhile.
func (p *Peer) Restart() {
	p.TB.Helper()
	p.server.Up(p)
}

// SetPrompts replaces the prompts without a notification.
func (p *Peer) SetPrompts(prompts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prompts = definitions(prompts)
}

// Offer replaces the prompts and sends a list_changed notification.
func (p *Peer) Offer(prompts ...string) {
	p.SetPrompts(prompts...)
	p.Announce()
}

// Announce sends a list_changed notification on all streams.
func (p *Peer) Announce() {
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

// Synchronize waits until the gateway has read everything sent on the streams so far: it pings the
// gateway on each of them.
func (p *Peer) Synchronize() {
	p.TB.Helper()
	p.mu.Lock()
	for stream := range p.streams {
		stream <- `{"jsonrpc":"2.0","id":"synchronize","method":"ping"}`
	}
	streams := len(p.streams)
	p.mu.Unlock()
	upstreamtest.Eventually(p.TB, p.Name+" has a reply from each stream", func() bool {
		replies := 0
		for _, call := range p.Calls("") {
			if string(call.ID) == `"synchronize"` {
				replies++
			}
		}
		return replies == streams
	})
}

// AwaitStream waits until the gateway has a stream on which it would be told of a change.
func (p *Peer) AwaitStream() *Peer {
	p.TB.Helper()
	upstreamtest.Eventually(p.TB, p.Name+" has a stream", func() bool { return p.Streams() > 0 })
	return p
}

// Unwatched reports whether the gateway has no stream any more.
func (p *Peer) Unwatched() bool { return p.Streams() == 0 }

// Streams returns how many streams are open.
func (p *Peer) Streams() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.streams)
}

// Answer sets the result of a method, or its error if the text begins with "error:".
func (p *Peer) Answer(method, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.results[method] = text
}

// Intercept lets a test respond to requests itself. Handle reports whether it has responded; if
// not, the peer does.
func (p *Peer) Intercept(handle func(w http.ResponseWriter, r *http.Request, call Call) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handle = handle
}

// OnGet is [Peer.Intercept] for gets.
func (p *Peer) OnGet(handle func(w http.ResponseWriter, r *http.Request, call Call) bool) {
	p.Intercept(func(w http.ResponseWriter, r *http.Request, call Call) bool {
		return call.Method == "prompts/get" && handle(w, r, call)
	})
}

// PauseGets makes each get wait until release is called, or its caller has gone. Entered has an
// element for each get that waits.
func (p *Peer) PauseGets() (entered <-chan struct{}, release func()) {
	waiting, released := make(chan struct{}, 1000), make(chan struct{})
	p.OnGet(func(_ http.ResponseWriter, r *http.Request, _ Call) bool {
		waiting <- struct{}{}
		select {
		case <-released:
		case <-r.Context().Done():
		}
		return false
	})
	release = sync.OnceFunc(func() { close(released) })
	p.TB.Cleanup(release)
	return waiting, release
}

// HoldGets makes each get wait until its caller has gone. Entered has an element for each get that
// waits, and gone for each whose caller has gone.
func (p *Peer) HoldGets() (entered, gone chan struct{}) {
	entered, gone = make(chan struct{}, 10), make(chan struct{}, 10)
	p.OnGet(func(_ http.ResponseWriter, r *http.Request, _ Call) bool {
		entered <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
		return true
	})
	return entered, gone
}

// Calls returns the requests and notifications of a method in the order of their arrival. Those of
// the method "" are replies.
func (p *Peer) Calls(method string) []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	var calls []Call
	for _, call := range p.calls {
		if call.Method == method {
			calls = append(calls, call)
		}
	}
	return calls
}

// Forget forgets the calls so far.
func (p *Peer) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = nil
}

// ServeHTTP implements http.Handler.
func (p *Peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && !p.modern {
		p.serveStream(w, r, "")
		return
	}
	body, err := io.ReadAll(r.Body)
	call := Call{Header: r.Header.Clone()}
	if err != nil || r.Method != http.MethodPost || json.Unmarshal(body, &call) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	p.mu.Lock()
	p.calls = append(p.calls, call)
	handle := p.handle
	p.mu.Unlock()
	p.checkSchema(call, body)
	switch {
	case handle != nil && handle(w, r, call):
	case call.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case p.modern && call.Method == "subscriptions/listen":
		p.serveStream(w, r, string(call.ID))
	default:
		p.Respond(w, call, p.Result(call.Method))
	}
}

// checkSchema checks a message of the gateway. It leaves out gets with arguments that are not
// strings: no revision allows them, and they are passed on as the client sent them.
func (p *Peer) checkSchema(call Call, body []byte) {
	var params struct{ Arguments map[string]json.RawMessage }
	if call.Method == "prompts/get" && json.Unmarshal(call.Params, &params) == nil {
		for _, value := range params.Arguments {
			if value[0] != '"' {
				return
			}
		}
	}
	revision := "2025-11-25"
	if p.modern || call.Method == "server/discover" {
		revision = Latest
	}
	CheckSchema(p.TB, revision, "", string(body))
}

// Respond sends a result, or an error if the text begins with "error:".
func (p *Peer) Respond(w http.ResponseWriter, call Call, text string) {
	w.Header().Set("Content-Type", "application/json")
	kind := "result"
	if failure, ok := strings.CutPrefix(text, "error:"); ok {
		kind, text = "error", failure
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%q:%s}`, call.ID, kind, text)
}

// Result returns the result of a method, or the error after "error:", as the peer itself responds
// with it.
func (p *Peer) Result(method string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text, ok := p.results[method]; ok {
		return text
	}
	switch {
	case method == "initialize" && !p.modern:
		return `{"protocolVersion":"2025-11-25","serverInfo":{"name":"peer","version":"1"},"capabilities":` + p.Capabilities + `}`
	case method == "server/discover" && p.modern:
		return `{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"public","capabilities":` + p.Capabilities + `}`
	case method == "prompts/list":
		return `{"prompts":[` + strings.Join(p.prompts, ",") + `]}`
	case method == "prompts/get":
		return `{"messages":[{"role":"user","content":{"type":"text","text":"from ` + p.Name + `"}}]}`
	case method == "completion/complete":
		return `{"completion":{"values":["from ` + p.Name + `"]}}`
	case method == "ping":
		return `{}`
	}
	return `error:{"code":-32601,"message":"Method not found"}`
}

func (p *Peer) serveStream(w http.ResponseWriter, r *http.Request, id string) {
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
	_ = flusher.Flush() // if the gateway has gone, the context below has ended
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.streams, messages)
	}()
	for {
		select {
		case message := <-messages:
			fmt.Fprintf(w, "data: %s\n\n", message)
			_ = flusher.Flush() // an error means that the gateway has gone
		case <-r.Context().Done():
			return
		}
	}
}
