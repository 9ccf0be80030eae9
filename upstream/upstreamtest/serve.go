package upstreamtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Server is an HTTP server that can go down and come back on the same port.
type Server struct {
	// URL stays the same when the server goes down and comes back.
	URL string

	tb      testing.TB
	address string
	server  *http.Server
	served  sync.WaitGroup
}

// Serve starts a server on a free port of the loopback interface.
func Serve(tb testing.TB, handler http.Handler) *Server {
	tb.Helper()
	s := &Server{tb: tb, address: Address(tb)}
	s.URL = "http://" + s.address
	s.Up(handler)
	tb.Cleanup(s.Down)
	return s
}

// Up starts the server again.
func (s *Server) Up(handler http.Handler) {
	s.tb.Helper()
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", s.address)
	if err != nil {
		s.tb.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	s.server = server
	s.served.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.tb.Error(err)
		}
	})
}

// Down stops the server as a kill does: its connections break. It may be called more than once.
func (s *Server) Down() {
	_ = s.server.Close()
	s.served.Wait()
}

// Memory is an http.RoundTripper that hands each request to a handler, without a network.
type Memory struct{ Handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (m Memory) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	reader, writer := io.Pipe()
	response := &http.Response{
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, Header: http.Header{},
		Body: &memoryBody{reader, cancel}, ContentLength: -1,
	}
	w := &memoryWriter{response: response, body: writer, header: http.Header{}, started: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { writer.CloseWithError(context.Canceled) })
	go func() {
		defer stop()
		m.Handler.ServeHTTP(w, r.Clone(ctx))
		w.WriteHeader(http.StatusOK)
		_ = writer.Close()
	}()
	select {
	case <-w.started:
		return response, nil
	case <-r.Context().Done():
		cancel()
		return nil, r.Context().Err()
	}
}

type memoryBody struct {
	*io.PipeReader

	cancel context.CancelFunc
}

func (b *memoryBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// memoryWriter is the http.ResponseWriter of one request.
type memoryWriter struct {
	response *http.Response
	body     *io.PipeWriter
	header   http.Header
	once     sync.Once
	started  chan struct{}
}

func (w *memoryWriter) Header() http.Header { return w.header }

func (w *memoryWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.response.StatusCode, w.response.Header = status, w.header.Clone()
		close(w.started)
	})
}

func (w *memoryWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// Flush implements http.Flusher.
func (w *memoryWriter) Flush() { w.WriteHeader(http.StatusOK) }

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
	s.peer.stream(w, r, said, nil, func() { fmt.Fprintf(w, ": hello\n\nevent: endpoint\ndata: %s%d\n\n", s.endpoint, number) })
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
	if _, open := s.peer.streams[said]; open {
		said <- answer.Body.String()
	}
}
