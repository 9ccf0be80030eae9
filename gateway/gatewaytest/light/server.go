package light

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Server is an MCP server of 2026-07-28 or, as a legacy one, of 2025-11-25, over HTTP and stdio. It encodes its results once, so that it
// takes little processor time beside the gateway under measurement. Its fields must not change once it is in use; its methods are
// safe for concurrent use.
type Server struct {
	// Legacy makes the server speak 2025-11-25 and no later revision.
	Legacy bool
	// SSE makes it answer gets with an event stream.
	SSE bool
	// Delay is the time before the response to a get; Workers has room for those that are answered at a
	// time, where nil means no bound.
	Delay   time.Duration
	Workers chan struct{}
	// OnRequest may answer a request in place of the server.
	OnRequest func(w http.ResponseWriter, r *http.Request, m wire.Message) (done bool)

	mu      sync.RWMutex // guards the fields below
	results map[string]string
	life    int                        // counts restarts; part of the session ID
	streams map[chan struct{}]struct{} // each of capacity one: a value in it means that the list has changed
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

// Text returns one of a size in bytes.
func Text(size int) string {
	return strings.Repeat("All work and no play makes a dull prompt. ", size/42+1)[:size]
}

// NewServer returns a server that offers prompts of a size in bytes.
func NewServer(legacy bool, size int, prompts ...string) *Server {
	s := &Server{Legacy: legacy, streams: map[chan struct{}]struct{}{}}
	s.results = map[string]string{
		wire.Ping:       `{}`,
		wire.PromptsGet: `{"resultType":"complete","messages":[{"role":"user","content":{"type":"text","text":"` + Text(size) + `"}}]}`,
	}
	s.declare("")
	s.Offer(prompts...)
	return s
}

// declare declares more capabilities than prompts.
func (s *Server) declare(more string) {
	declared := `"capabilities":{"prompts":{"listChanged":true}` + more + `},"serverInfo":{"name":"rig","version":"1"}`
	s.results[wire.Initialize] = `{"protocolVersion":"2025-11-25",` + declared + `}`
	if !s.Legacy {
		s.results[wire.Discover] = `{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"public",` + declared + `}`
	}
}

// Offer replaces the prompts, given as definitions, and notifies all listening clients.
func (s *Server) Offer(prompts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results[wire.PromptsList] = `{"resultType":"complete","ttlMs":0,"cacheScope":"public","prompts":[` + strings.Join(prompts, ",") + `]}`
	for stream := range s.streams {
		select {
		case stream <- struct{}{}:
		default:
		}
	}
}

// Forget ends all sessions, as a restart does.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life++
}

// Respond appends the response to a request for a method, with an id, after the delay.
func (s *Server) Respond(dst, id []byte, method string) []byte {
	if s.Delay > 0 && method == wire.PromptsGet {
		if s.Workers != nil {
			s.Workers <- struct{}{}
			defer func() { <-s.Workers }()
		}
		time.Sleep(s.Delay)
	}
	s.mu.RLock()
	result, ok := s.results[method]
	s.mu.RUnlock()
	dst = append(append(append(dst, `{"jsonrpc":"2.0","id":`...), id...), ',')
	if !ok {
		return append(dst, `"error":{"code":-32601,"message":"Method not found"}}`...)
	}
	return append(append(append(dst, `"result":`...), result...), '}')
}

// buffers hold responses.
var buffers = sync.Pool{New: func() any { return new([]byte) }} //nolint:gochecknoglobals // a pool

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	session := s.session()
	if given := r.Header.Get(wire.HeaderSessionID); given != "" && given != session {
		http.Error(w, "session not found", http.StatusNotFound)
		return
	}
	if r.Method == http.MethodGet && s.Legacy {
		s.stream(w, r, nil)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m, err := wire.Parse(body)
	switch {
	case r.Method != http.MethodPost || err != nil:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case !m.IsRequest():
		w.WriteHeader(http.StatusAccepted)
		return
	case s.OnRequest != nil && s.OnRequest(w, r, m):
		return
	case m.Method == wire.Listen && !s.Legacy:
		s.stream(w, r, json.RawMessage(m.ID))
		return
	case m.Method == wire.Initialize:
		w.Header().Set(wire.HeaderSessionID, session)
	}
	buffer, _ := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	if s.SSE && m.Method == wire.PromptsGet {
		w.Header().Set("Content-Type", wire.ContentSSE)
		*buffer = append(s.Respond(append((*buffer)[:0], "data: "...), m.ID, m.Method), "\n\n"...)
	} else {
		w.Header().Set("Content-Type", wire.ContentJSON)
		*buffer = s.Respond((*buffer)[:0], m.ID, m.Method)
		w.Header().Set("Content-Length", strconv.Itoa(len(*buffer)))
	}
	_, _ = w.Write(*buffer) // fails only if the client has gone
}

// session returns the ID of all sessions since the last restart.
func (s *Server) session() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return "life-" + strconv.Itoa(s.life)
}

// notification returns a notification that belongs to the subscription with the given ID, or to none if that is nil.
func notification(method string, subscription json.RawMessage) []byte {
	if subscription == nil {
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q}`, method)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"notifications":{"promptsListChanged":true},"_meta":{%q:%s}}}`,
		method, wire.MetaSubscriptionID, subscription)
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request, subscription json.RawMessage) {
	changed, leave := s.listen()
	defer leave()
	w.Header().Set("Content-Type", wire.ContentSSE)
	flush := http.NewResponseController(w).Flush
	if subscription != nil {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", notification(wire.Acknowledged, subscription)) // an error recurs in flush
	}
	for flush() == nil {
		select {
		case <-changed:
			_, _ = fmt.Fprintf(w, "data: %s\n\n", notification(wire.PromptsListChanged, subscription)) // as above
		case <-r.Context().Done():
			return
		}
	}
}

func (s *Server) listen() (changed chan struct{}, leave func()) {
	changed = make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[changed] = struct{}{}
	return changed, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.streams, changed)
	}
}

// ServeStdio serves one client of 2025-11-25, with one message per line, until in ends.
func (s *Server) ServeStdio(in io.Reader, out io.Writer) error {
	var mu sync.Mutex // guards out
	write := func(line []byte) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = out.Write(append(line, '\n')) // fails only if the client has gone, and then in ends too
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m, err := wire.Parse(append([]byte(nil), lines.Bytes()...))
		if err != nil {
			return err
		}
		if m.IsRequest() {
			go func() { write(s.Respond(nil, m.ID, m.Method)) }()
		}
	}
	return lines.Err()
}
