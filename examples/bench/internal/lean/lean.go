// Package lean answers: what is the least MCP server that has prompts and says when they change? A [Server] speaks
// 2026-07-28 or, as a legacy one, 2025-11-25 with sessions, over HTTP and over stdio. It keeps nothing of what it was
// asked, so that it weighs little beside the gateway that is measured. Its methods are safe for concurrent use.
package lean

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Server is an MCP server. The zero value is modern and has no prompts.
type Server struct {
	// Legacy makes it speak 2025-11-25 instead of 2026-07-28. It is not changed once the server is in use.
	Legacy bool

	mu      sync.Mutex                 // guards what follows
	list    string                     // the result of prompts/list
	life    int                        // what sessions belong to
	streams map[chan struct{}]struct{} // each holds at most one mark: that the list has changed
}

// Prompt returns the definition of a prompt of ordinary size.
func Prompt(name, description string) string {
	return fmt.Sprintf(`{"name":%q,"title":"A prompt","description":%q,"arguments":[`+
		`{"name":"code","description":"The code to review","required":true},`+
		`{"name":"style","description":"Which style guide to apply"}]}`, name, description)
}

// Offer replaces the prompts, given as definitions, and says so to all who listen.
func (s *Server) Offer(prompts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = `{"resultType":"complete","ttlMs":0,"cacheScope":"public","prompts":[` + strings.Join(prompts, ",") + `]}`
	for stream := range s.streams {
		select {
		case stream <- struct{}{}:
		default:
		}
	}
}

// Forget ends all sessions, as a restart would.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life++
}

// message is what a client sends.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

// respond returns the response to a request.
func (s *Server) respond(m message) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	const declared = `"capabilities":{"prompts":{"listChanged":true}},"serverInfo":{"name":"lean","version":"1"}`
	result := ""
	switch {
	case m.Method == wire.PromptsList:
		result = s.list
	case m.Method == wire.Initialize && s.Legacy:
		result = `{"protocolVersion":"2025-11-25",` + declared + `}`
	case m.Method == wire.Discover && !s.Legacy:
		result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"public",` + declared + `}`
	case m.Method == wire.Ping:
		result = `{}`
	}
	if result == "" {
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// notification is one that belongs to the subscription with the id, or to none where that is nil.
func notification(method string, subscription json.RawMessage) []byte {
	if subscription == nil {
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q}`, method)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"notifications":{"promptsListChanged":true},"_meta":{%q:%s}}}`,
		method, wire.MetaSubscriptionID, subscription)
}

// ServeHTTP implements http.Handler.
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
	var m message
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	switch {
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	case m.Method == wire.Listen && !s.Legacy:
		s.stream(w, r, m.ID)
		return
	case m.Method == wire.Initialize && s.Legacy:
		w.Header().Set(wire.HeaderSessionID, session)
	}
	w.Header().Set("Content-Type", wire.ContentJSON)
	_, _ = w.Write(s.respond(m)) // the client has gone
}

// session is the id of all sessions of the present life.
func (s *Server) session() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint("life-", s.life)
}

// stream tells of changes until the client goes.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, subscription json.RawMessage) {
	changed, leave := s.listen()
	defer leave()
	w.Header().Set("Content-Type", wire.ContentSSE)
	flush := http.NewResponseController(w).Flush
	if subscription != nil {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", notification(wire.Acknowledged, subscription)) // seen below
	}
	for flush() == nil {
		select {
		case <-changed:
			_, _ = fmt.Fprintf(w, "data: %s\n\n", notification(wire.PromptsListChanged, subscription)) // seen by flush
		case <-r.Context().Done():
			return
		}
	}
}

// listen returns where changes are marked, until leave is called.
func (s *Server) listen() (changed chan struct{}, leave func()) {
	changed = make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams == nil {
		s.streams = map[chan struct{}]struct{}{}
	}
	s.streams[changed] = struct{}{}
	return changed, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.streams, changed)
	}
}

// ServeStdio serves one client, a message on each line, until in ends.
func (s *Server) ServeStdio(in io.Reader, out io.Writer) error {
	var mu sync.Mutex // guards out
	write := func(line []byte) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = out.Write(append(line, '\n')) // the client has gone: in ends too
	}
	changed, leave := s.listen()
	subscriptions := make(chan json.RawMessage, 1)
	var notifying sync.WaitGroup
	defer notifying.Wait()
	defer leave()
	defer close(subscriptions)
	notifying.Go(func() { notify(write, changed, subscriptions, s.Legacy) })

	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return err
		}
		switch {
		case m.Method == wire.Listen && !s.Legacy:
			subscriptions <- m.ID
		case m.ID != nil:
			write(s.respond(m))
		}
	}
	return lines.Err()
}

// notify tells of changes, in the modern era to who subscribed last, until subscriptions is closed.
func notify(write func([]byte), changed <-chan struct{}, subscriptions <-chan json.RawMessage, legacy bool) {
	var subscription json.RawMessage
	for {
		select {
		case id, open := <-subscriptions:
			if !open {
				return
			}
			subscription = id
			write(notification(wire.Acknowledged, id))
		case <-changed:
			if legacy || subscription != nil {
				write(notification(wire.PromptsListChanged, subscription))
			}
		}
	}
}
