// Package lean is a minimal MCP server that offers prompts and notifies clients when they change. A [Server] speaks 2026-07-28 or,
// as a legacy one, 2025-11-25 with sessions, over HTTP and stdio. It keeps no state per request, so that it takes little memory
// beside the gateway under measurement. Its methods are safe for concurrent use.
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

// Server is an MCP server. The zero value speaks 2026-07-28 and has no prompts.
type Server struct {
	// Legacy makes the server speak 2025-11-25 instead of 2026-07-28. It must not change once the server is in use.
	Legacy bool

	mu      sync.Mutex                 // guards the fields below
	list    string                     // the result of prompts/list
	answer  string                     // the result of each prompts/get; empty if there is none
	life    int                        // counts restarts; part of the session ID
	streams map[chan struct{}]struct{} // each of capacity one: a value in it means that the list has changed
}

// Prompt returns a prompt definition of ordinary size.
func Prompt(name, description string) string {
	return fmt.Sprintf(`{"name":%q,"title":"A prompt","description":%q,"arguments":[`+
		`{"name":"code","description":"The code to review","required":true},`+
		`{"name":"style","description":"Which style guide to apply"}]}`, name, description)
}

// Offer replaces the prompts, given as definitions, and notifies all listening clients.
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

// Answer sets the result of each get. Without one, gets are refused.
func (s *Server) Answer(result string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = result
}

// Forget ends all sessions, as a restart does.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life++
}

// message is a request or notification from a client.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

// Respond returns the response to a request for a method, with an id.
func (s *Server) Respond(id json.RawMessage, method string) []byte {
	return s.respond(message{id, method})
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
	case m.Method == wire.PromptsGet:
		result = s.answer
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

// notification returns a notification that belongs to the subscription with the given ID, or to none if that is nil.
func notification(method string, subscription json.RawMessage) []byte {
	if subscription == nil {
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q}`, method)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"notifications":{"promptsListChanged":true},"_meta":{%q:%s}}}`,
		method, wire.MetaSubscriptionID, subscription)
}

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
	_, _ = w.Write(s.respond(m)) // fails only if the client has gone
}

// session returns the ID of all sessions since the last restart.
func (s *Server) session() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint("life-", s.life)
}

// stream sends notifications until the client disconnects.
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

// listen returns a channel that signals changes until leave is called.
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

// ServeStdio serves one client, with one message per line, until in ends.
func (s *Server) ServeStdio(in io.Reader, out io.Writer) error {
	var mu sync.Mutex // guards out
	write := func(line []byte) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = out.Write(append(line, '\n')) // fails only if the client has gone, and then in ends too
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

// notify sends notifications until subscriptions is closed. In 2026-07-28 they go to the last subscription.
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
