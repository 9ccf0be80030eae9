package upstreamtest

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Forgotten in place of a method stands for any request of a session that the peer has forgotten.
const Forgotten = "session not found"

// Peer is an MCP server over Streamable HTTP. By default it is a legacy one with sessions,
// notifications and one prompt, "p". Its responses may be replaced at any time. It checks each
// message that it gets with the schema of its revision, but for gets and completions, whose params
// are the test's.
type Peer struct {
	tb testing.TB

	mu       sync.Mutex // guards what follows
	answers  map[string]func(http.ResponseWriter, *Request)
	seen     []*Request
	streams  map[chan string]bool
	sessions int
	oldest   int // sessions below it are forgotten
}

// Request is one request that a [Peer] got.
type Request struct {
	*http.Request

	Body    []byte
	Message wire.Message
	Params  wire.Object
}

// NewPeer returns a legacy peer.
func NewPeer(tb testing.TB) *Peer {
	tb.Helper()
	p := &Peer{tb: tb, answers: map[string]func(http.ResponseWriter, *Request){}, streams: map[chan string]bool{}}
	p.Result(wire.Initialize, `{"protocolVersion":"2025-11-25","capabilities":{"prompts":{"listChanged":true}},`+
		`"serverInfo":{"name":"peer","version":"1"}}`)
	p.Result(wire.PromptsList, `{"prompts":[{"name":"p"}]}`)
	p.Result(wire.PromptsGet, `{"messages":[]}`)
	p.Result(wire.Ping, `{}`)
	p.Status(Forgotten, http.StatusNotFound)
	p.Handle(http.MethodGet, p.Stream)
	p.Handle(http.MethodDelete, func(w http.ResponseWriter, _ *Request) { w.WriteHeader(http.StatusNoContent) })
	return p
}

// NewModernPeer returns a peer that speaks 2026-07-28 only.
func NewModernPeer(tb testing.TB) *Peer {
	tb.Helper()
	p := NewPeer(tb)
	p.Handle(wire.Initialize, nil)
	p.Handle(http.MethodGet, nil)
	p.Result(wire.Discover, `{"resultType":"complete","supportedVersions":["2026-07-28"],`+
		`"capabilities":{"prompts":{"listChanged":true}}}`)
	p.Handle(wire.Listen, p.Stream)
	return p
}

// Handle replaces the response to a method of JSON-RPC or, for a request without a message, of
// HTTP. Nil means not found.
func (p *Peer) Handle(method string, answer func(http.ResponseWriter, *Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[method] = answer
}

// Result makes the peer answer a method with a result.
func (p *Peer) Result(method, result string) {
	p.Handle(method, func(w http.ResponseWriter, r *Request) { r.Result(w, result) })
}

// Error makes the peer answer a method with an HTTP status and an error.
func (p *Peer) Error(method string, status int, err string) {
	p.Handle(method, func(w http.ResponseWriter, r *Request) { r.Error(w, status, err) })
}

// Status makes the peer answer a method with an HTTP status and a text.
func (p *Peer) Status(method string, status int) {
	p.Handle(method, func(w http.ResponseWriter, _ *Request) { http.Error(w, "text", status) })
}

// Prompts makes the peer list prompts with these names, on one page.
func (p *Peer) Prompts(names ...string) {
	list := make([]jsontext.Value, len(names))
	for i, name := range names {
		list[i] = wire.Object{}.With("name", wire.Quote(name)).JSON()
	}
	p.Result(wire.PromptsList, `{"prompts":`+string(wire.Array(list))+`}`)
}

// Seen returns the requests so far with a method of JSON-RPC or of HTTP.
func (p *Peer) Seen(method string) []*Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []*Request
	for _, r := range p.seen {
		if r.Message.Method == method || r.Method == method {
			found = append(found, r)
		}
	}
	return found
}

// Forget makes the peer forget all sessions, as a restart does.
func (p *Peer) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.oldest = p.sessions + 1
}

// Say sends a message on all open streams.
func (p *Peer) Say(message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for stream := range p.streams {
		stream <- message
	}
}

// Changed sends a notification that the list of prompts changed.
func (p *Peer) Changed() {
	p.Say(`{"jsonrpc":"2.0","method":"` + wire.PromptsListChanged + `"}`)
}

// Break closes all open streams.
func (p *Peer) Break() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for stream := range p.streams {
		close(stream)
	}
	clear(p.streams)
}

// Streams returns the number of open streams.
func (p *Peer) Streams() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.streams)
}

// Stream responds with a stream of the messages of [Peer.Say], until the client leaves or
// [Peer.Break].
func (p *Peer) Stream(w http.ResponseWriter, r *Request) {
	p.stream(w, r.Request, make(chan string, 64), func() {
		if r.Message.Method == wire.Listen {
			Event(w, `{"jsonrpc":"2.0","method":"`+wire.Acknowledged+`","params":{"notifications":{}}}`)
		}
	})
}

// stream responds with what first writes, and then with a stream of messages.
func (p *Peer) stream(w http.ResponseWriter, r *http.Request, said chan string, first func()) {
	p.mu.Lock()
	p.streams[said] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.streams, said)
	}()
	w.Header().Set("Content-Type", wire.ContentSSE)
	first()
	w.(http.Flusher).Flush()
	for {
		select {
		case message, ok := <-said:
			if !ok {
				return
			}
			Event(w, message)
		case <-r.Context().Done():
			return
		}
	}
}

// Event writes one event of a stream.
func Event(w http.ResponseWriter, data string) {
	w.Header().Set("Content-Type", wire.ContentSSE)
	fmt.Fprintf(w, "data: %s\n\n", data)
	w.(http.Flusher).Flush()
}

// Result writes a result as JSON.
func (r *Request) Result(w http.ResponseWriter, result string) {
	w.Header().Set("Content-Type", wire.ContentJSON)
	_, _ = w.Write(wire.AppendResult(nil, r.Message.ID, jsontext.Value(result)))
}

// Error writes an error object as JSON, with an HTTP status.
func (r *Request) Error(w http.ResponseWriter, status int, err string) {
	w.Header().Set("Content-Type", wire.ContentJSON)
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, r.Message.ID, err)
}

// ServeHTTP implements http.Handler.
func (p *Peer) ServeHTTP(w http.ResponseWriter, httpRequest *http.Request) {
	body, err := io.ReadAll(httpRequest.Body)
	if err != nil {
		return
	}
	r := &Request{Request: httpRequest, Body: body}
	method := r.Method
	if len(body) > 0 {
		if r.Message, err = wire.Parse(slices.Clone(body)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		method = r.Message.Method
		r.Params = wire.Members(r.Message.Params)
		if err := Violation(r.revision(), "", body); err != nil && method != wire.PromptsGet && method != wire.Complete {
			p.tb.Error(err)
		}
	}
	answer := p.take(w, r, method)
	switch {
	case answer != nil:
		answer(w, r)
	case r.Message.IsRequest():
		r.Error(w, http.StatusOK, `{"code":-32601,"message":"Method not found"}`)
	case method == http.MethodGet, method == http.MethodDelete:
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// revision returns the revision of a message, as far as the request shows it.
func (r *Request) revision() string {
	if header := r.Header.Get(wire.HeaderProtocolVersion); header != "" {
		return header
	}
	if wanted, ok := r.Params.Text("protocolVersion"); ok && r.Message.Method == wire.Initialize {
		return wanted
	}
	return wire.Rev20241105
}

// take records a request and returns the response to it. It assigns sessions and recognises them.
func (p *Peer) take(w http.ResponseWriter, r *Request, method string) (answer func(http.ResponseWriter, *Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, r)
	answer = p.answers[method]
	if method == wire.Initialize && answer != nil {
		p.sessions++
		w.Header().Set(wire.HeaderSessionID, fmt.Sprint("s", p.sessions))
		return answer
	}
	if session := r.Header.Get(wire.HeaderSessionID); session != "" {
		var n int
		_, _ = fmt.Sscanf(session, "s%d", &n)
		if n < p.oldest {
			return p.answers[Forgotten]
		}
	}
	return answer
}
