package upstreamtest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"

	"github.com/promptweir/promptweir/upstream/wire"
)

// SSE serves a peer over HTTP+SSE, at /sse. The peer's responses go to the stream, but for those
// with an error status, which answer the POST.
func SSE(p *Peer) http.Handler { return &overSSE{peer: p, endpoint: "/messages?session="} }

// SSEAt is [SSE] with another endpoint URL, to which the session's number is appended.
func SSEAt(p *Peer, endpoint string) http.Handler { return &overSSE{peer: p, endpoint: endpoint} }

type overSSE struct {
	peer *Peer
	// endpoint is the data of the stream's first event, without the session's number.
	endpoint string

	mu       sync.Mutex // guards sessions
	sessions []chan string
}

func (s *overSSE) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/sse" && r.Method == http.MethodGet:
		s.serveStream(w, r)
	case r.URL.Path == "/messages" && r.Method == http.MethodPost:
		s.serveMessage(w, r)
	case r.URL.Path == "/sse":
		http.Error(w, "text", http.StatusMethodNotAllowed)
	default:
		http.NotFound(w, r)
	}
}

func (s *overSSE) serveStream(w http.ResponseWriter, r *http.Request) {
	said := make(chan string, 64)
	s.mu.Lock()
	s.sessions = append(s.sessions, said)
	number := len(s.sessions)
	s.mu.Unlock()
	s.peer.mu.Lock()
	s.peer.seen = append(s.peer.seen, &Request{Request: r})
	s.peer.mu.Unlock()
	s.peer.stream(w, r, said, func() { fmt.Fprintf(w, ": hello\n\nevent: endpoint\ndata: %s%d\n\n", s.endpoint, number) })
}

func (s *overSSE) serveMessage(w http.ResponseWriter, r *http.Request) {
	number, _ := strconv.Atoi(r.URL.Query().Get("session"))
	r.Header.Set(wire.HeaderSessionID, "s"+strconv.Itoa(number)) // so that the peer can forget it
	answer := httptest.NewRecorder()
	s.peer.ServeHTTP(answer, r)
	if answer.Code != http.StatusOK && answer.Code != http.StatusAccepted {
		http.Error(w, answer.Body.String(), answer.Code)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	if answer.Body.Len() == 0 {
		return
	}
	s.peer.mu.Lock()
	defer s.peer.mu.Unlock()
	s.mu.Lock()
	said := s.sessions[number-1]
	s.mu.Unlock()
	if s.peer.streams[said] {
		said <- answer.Body.String()
	}
}
