package upstreamtest

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Forgotten in place of a method stands for any request of a session that the peer has forgotten.
const Forgotten = "session not found"

// errorPrefix begins the text of a result that is an error object.
const errorPrefix = "error:"

// Peer is an MCP server of 2026-07-28 or, as a legacy one, of 2025-11-25, over Streamable HTTP and
// stdio. By default it has sessions, notifications and the prompts that it is given. Its results are
// encoded once, so that it takes little processor time beside a gateway under measurement, and may be
// replaced at any time. Its methods are safe for concurrent use.
//
// In a test it also records its requests, and checks them with the schema of their revision; gets and
// completions, whose params are the test's, are not checked.
type Peer struct {
	// SSE makes it respond to gets with an event stream. Set it before the peer is in use, as the fields
	// below.
	SSE bool
	// Delay is the time before the response to a get. Workers, if not nil, has room for the gets that are
	// answered at a time.
	Delay   time.Duration
	Workers chan struct{}
	// Sessionless makes it assign no sessions.
	Sessionless bool

	tb     testing.TB // nil in rigs
	modern bool

	mu       sync.RWMutex // guards the fields below
	results  map[string]string
	answers  map[string]func(http.ResponseWriter, *Request) // instead of results
	hook     func(http.ResponseWriter, *Request) bool
	seen     []*Request
	streams  map[chan string]jsontext.Value // to the id of the subscription
	sessions int
	oldest   int // sessions below it are forgotten
}

// Request is one request that a [Peer] received.
type Request struct {
	*http.Request

	Body    []byte
	Message wire.Message
	Params  wire.Object
}

// NewPeer returns a legacy peer with the prompt "p".
func NewPeer(tb testing.TB) *Peer {
	tb.Helper()
	return newPeer(tb, false)
}

// NewModernPeer returns a peer that speaks 2026-07-28 only, with the prompt "p".
func NewModernPeer(tb testing.TB) *Peer {
	tb.Helper()
	return newPeer(tb, true)
}

// NewLoadPeer returns a peer for rigs. Its prompts are definitions, and a get returns a text of a size
// in bytes.
func NewLoadPeer(legacy bool, size int, prompts ...string) *Peer {
	p := newPeer(nil, !legacy)
	p.Result(wire.PromptsGet, `{"resultType":"complete","messages":[{"role":"user","content":{"type":"text","text":"`+Text(size)+`"}}]}`)
	p.Offer(prompts...)
	return p
}

func newPeer(tb testing.TB, modern bool) *Peer {
	p := &Peer{
		tb: tb, modern: modern, results: map[string]string{}, answers: map[string]func(http.ResponseWriter, *Request){},
		streams: map[chan string]jsontext.Value{},
	}
	p.Declare(`{"prompts":{"listChanged":true}}`)
	p.List(`{"name":"p"}`)
	p.Result(wire.PromptsGet, `{"messages":[]}`)
	p.Result(wire.Ping, `{}`)
	p.Status(Forgotten, http.StatusNotFound)
	if modern {
		p.Handle(wire.Listen, p.Stream)
		return p
	}
	p.Handle(http.MethodGet, p.Stream)
	p.Handle(http.MethodDelete, func(w http.ResponseWriter, _ *Request) { w.WriteHeader(http.StatusNoContent) })
	return p
}

// Prompt returns a prompt definition of ordinary size.
func Prompt(name, description string) string {
	return fmt.Sprintf(`{"name":%q,"title":"A prompt","description":%q,"arguments":[`+
		`{"name":"code","description":"The code to review"},{"name":"style","description":"Which style guide to apply"}]}`, name, description)
}

// Prompts returns numbered definitions.
func Prompts(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = Prompt(fmt.Sprintf("p%05d", i), "What it is for, in as many words as people usually write.")
	}
	return all
}

// Text returns a text of a size in bytes.
func Text(size int) string {
	return strings.Repeat("All work and no play makes a dull prompt. ", size/42+1)[:size]
}

// Declare replaces the capabilities.
func (p *Peer) Declare(capabilities string) {
	declared := `"capabilities":` + capabilities + `,"serverInfo":{"name":"peer","version":"1"}}`
	if p.modern {
		p.Result(wire.Discover, `{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"public",`+declared)
		return
	}
	p.Result(wire.Initialize, `{"protocolVersion":"2025-11-25",`+declared)
}

// Handle replaces the response to a method of JSON-RPC or, for a request without a message, of
// HTTP. Nil means not found.
func (p *Peer) Handle(method string, answer func(http.ResponseWriter, *Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.results, method)
	p.answers[method] = answer
}

// Intercept lets a test or a rig respond to requests itself. Hook reports whether it has responded; if
// not, the peer does.
func (p *Peer) Intercept(hook func(w http.ResponseWriter, r *Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
}

// Result replaces the result of a method, or its error if the text begins with "error:".
func (p *Peer) Result(method, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.answers, method)
	p.results[method] = text
}

// ResultOf returns the result of a method, or the error after "error:".
func (p *Peer) ResultOf(method string) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if text, ok := p.results[method]; ok {
		return text
	}
	return errorPrefix + `{"code":-32601,"message":"Method not found"}`
}

// Error makes the peer respond to a method with an HTTP status and an error.
func (p *Peer) Error(method string, status int, err string) {
	p.Handle(method, func(w http.ResponseWriter, r *Request) { r.Error(w, status, err) })
}

// Status makes the peer respond to a method with an HTTP status and a text.
func (p *Peer) Status(method string, status int) {
	p.Handle(method, func(w http.ResponseWriter, _ *Request) { http.Error(w, "text", status) })
}

// Prompts makes the peer list prompts with these names, on one page.
func (p *Peer) Prompts(names ...string) {
	definitions := make([]string, len(names))
	for i, name := range names {
		definitions[i] = string(wire.Object{}.With("name", wire.Quote(name)).JSON())
	}
	p.List(definitions...)
}

// List makes the peer list definitions, on one page.
func (p *Peer) List(definitions ...string) {
	list := `"prompts":[` + strings.Join(definitions, ",") + `]}`
	if p.modern {
		list = `"resultType":"complete","ttlMs":0,"cacheScope":"public",` + list
	}
	p.Result(wire.PromptsList, "{"+list)
}

// Offer replaces the definitions and notifies all streams.
func (p *Peer) Offer(definitions ...string) {
	p.List(definitions...)
	p.Changed()
}

// Seen returns the requests so far with a method of JSON-RPC or of HTTP.
func (p *Peer) Seen(method string) []*Request {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var found []*Request
	for _, r := range p.seen {
		if r.Message.Method == method || r.Method == method {
			found = append(found, r)
		}
	}
	return found
}

// Replies returns the responses to the peer's own requests so far.
func (p *Peer) Replies() []*Request {
	return slices.DeleteFunc(p.Seen(http.MethodPost), func(r *Request) bool { return r.Message.Method != "" })
}

// ForgetSeen forgets the requests so far.
func (p *Peer) ForgetSeen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = nil
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

// Changed sends a notification that the list of prompts changed. A stream whose client does not read
// loses it.
func (p *Peer) Changed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for stream, subscription := range p.streams {
		select {
		case stream <- notification(wire.PromptsListChanged, subscription):
		default:
		}
	}
}

// notification returns a notification that belongs to a subscription, or to none if that is nil.
func notification(method string, subscription jsontext.Value) string {
	if subscription == nil {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q}`, method)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"notifications":{"promptsListChanged":true},"_meta":{%q:%s}}}`,
		method, wire.MetaSubscriptionID, subscription)
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
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.streams)
}

// Stream responds with a stream of messages, until the client leaves or [Peer.Break].
func (p *Peer) Stream(w http.ResponseWriter, r *Request) {
	var subscription jsontext.Value
	if r.Message.Method == wire.Listen {
		subscription = r.Message.ID
	}
	p.stream(w, r.Request, make(chan string, 100), subscription, func() {
		if subscription != nil {
			Event(w, notification(wire.Acknowledged, subscription))
		}
	})
}

// stream responds with what first writes, and then with a stream of messages.
func (p *Peer) stream(w http.ResponseWriter, r *http.Request, said chan string, subscription jsontext.Value, first func()) {
	p.mu.Lock()
	p.streams[said] = subscription
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.streams, said)
	}()
	w.Header().Set("Content-Type", wire.ContentSSE)
	first()
	flush := http.NewResponseController(w).Flush
	for flush() == nil {
		select {
		case message, ok := <-said:
			if !ok {
				return
			}
			_, _ = fmt.Fprintf(w, "data: %s\n\n", message) // an error recurs in flush
		case <-r.Context().Done():
			return
		}
	}
}

// Event writes one event of a stream.
func Event(w http.ResponseWriter, data string) {
	w.Header().Set("Content-Type", wire.ContentSSE)
	fmt.Fprintf(w, "data: %s\n\n", data)
	_ = http.NewResponseController(w).Flush() // an error means that the client has gone
}

// Result writes a result as JSON, or an error if the text begins with "error:".
func (r *Request) Result(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", wire.ContentJSON)
	_, _ = w.Write(appendResponse(nil, r.Message.ID, text)) // an error means that the client has gone
}

// Error writes an error object as JSON, with an HTTP status.
func (r *Request) Error(w http.ResponseWriter, status int, err string) {
	w.Header().Set("Content-Type", wire.ContentJSON)
	w.WriteHeader(status)
	_, _ = w.Write(appendResponse(nil, r.Message.ID, errorPrefix+err)) // as above
}

func appendResponse(dst, id []byte, text string) []byte {
	dst = append(append(append(dst, `{"jsonrpc":"2.0","id":`...), id...), ',')
	if failure, ok := strings.CutPrefix(text, errorPrefix); ok {
		return append(append(append(dst, `"error":`...), failure...), '}')
	}
	return append(append(append(dst, `"result":`...), text...), '}')
}

// Respond appends the response to a request for a method, with an id, after the delay.
func (p *Peer) Respond(dst, id []byte, method string) []byte {
	if p.Delay > 0 && method == wire.PromptsGet {
		if p.Workers != nil {
			p.Workers <- struct{}{}
			defer func() { <-p.Workers }()
		}
		time.Sleep(p.Delay)
	}
	return appendResponse(dst, id, p.ResultOf(method))
}

// buffers hold responses.
var buffers = sync.Pool{New: func() any { return new([]byte) }} //nolint:gochecknoglobals // a pool

// ServeHTTP implements [http.Handler].
func (p *Peer) ServeHTTP(w http.ResponseWriter, httpRequest *http.Request) {
	body, err := io.ReadAll(httpRequest.Body)
	if err != nil {
		return
	}
	r := &Request{Request: httpRequest, Body: body}
	method := r.Method
	if len(body) > 0 {
		if r.Message, err = wire.Parse(body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		method = r.Message.Method
	}
	if p.tb != nil {
		p.record(r)
	}
	hook, answer := p.take(w, r, method)
	switch {
	case hook != nil && hook(w, r):
	case answer != nil:
		answer(w, r)
	case r.Message.IsRequest():
		p.respond(w, r)
	case method == http.MethodGet, method == http.MethodDelete:
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// record records a request, and checks it with the schema.
func (p *Peer) record(r *Request) {
	r.Body = slices.Clone(r.Body) // the message shares it
	r.Params = wire.Members(r.Message.Params)
	p.mu.Lock()
	p.seen = append(p.seen, r)
	p.mu.Unlock()
	if method := r.Message.Method; len(r.Body) == 0 || method == wire.PromptsGet || method == wire.Complete {
		return
	}
	if err := Violation(r.revision(), "", r.Body); err != nil {
		p.tb.Error(err)
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

// take returns the hook and the response to a request. It assigns sessions and recognises them.
func (p *Peer) take(
	w http.ResponseWriter, r *Request, method string,
) (hook func(http.ResponseWriter, *Request) bool, answer func(http.ResponseWriter, *Request)) {
	if method == wire.Initialize && !p.Sessionless {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.sessions++
		w.Header().Set(wire.HeaderSessionID, "s"+strconv.Itoa(p.sessions))
		return p.hook, p.answers[method]
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	if session := r.Header.Get(wire.HeaderSessionID); session != "" {
		if n, _ := strconv.Atoi(strings.TrimPrefix(session, "s")); n < p.oldest {
			return nil, p.answers[Forgotten]
		}
	}
	return p.hook, p.answers[method]
}

func (p *Peer) respond(w http.ResponseWriter, r *Request) {
	method := r.Message.Method
	buffer, _ := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	if p.SSE && method == wire.PromptsGet {
		w.Header().Set("Content-Type", wire.ContentSSE)
		*buffer = append(p.Respond(append((*buffer)[:0], "data: "...), r.Message.ID, method), "\n\n"...)
	} else {
		w.Header().Set("Content-Type", wire.ContentJSON)
		*buffer = p.Respond((*buffer)[:0], r.Message.ID, method)
		w.Header().Set("Content-Length", strconv.Itoa(len(*buffer)))
	}
	_, _ = w.Write(*buffer) // an error means that the client has gone
}

// ServeStdio serves one client of the legacy era, with one message per line, until in ends.
func (p *Peer) ServeStdio(in io.Reader, out io.Writer) error {
	var mu sync.Mutex // guards out
	write := func(line []byte) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = out.Write(append(line, '\n')) // fails only if the client has gone, and then in ends too
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m, err := wire.Parse(slices.Clone(lines.Bytes()))
		if err != nil {
			return err
		}
		if m.IsRequest() {
			go func() { write(p.Respond(nil, m.ID, m.Method)) }()
		}
	}
	return lines.Err()
}
