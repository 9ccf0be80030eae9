package edge_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// served is an HTTP server with a limit of connections. /stream?as=NAME is a stream that NAME holds, and says goodbye if it
// has to end; /deaf is one that does not listen; everything else is answered at once.
type served struct {
	*httptest.Server

	tb  testing.TB
	log *upstreamtest.Log
	// idle is how often a connection has become idle, which may be after its client has the response.
	idle atomic.Int32
}

func serve(t *testing.T, most int, http2 bool) *served {
	t.Helper()
	s := &served{tb: t, log: &upstreamtest.Log{}}
	l := edge.New(edge.Options{Connections: most, Logger: slog.New(slog.NewTextHandler(s.log, nil))})
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			return
		}
		c := edge.FromContext(r.Context())
		if who := r.URL.Query().Get("as"); who != "stranger" {
			c.Authenticated()
		}
		ending, release := l.OpenStream(c, r.ProtoMajor > 1, r.URL.Query().Get("as"))
		defer release()
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/deaf" {
			ending = nil
		}
		select {
		case <-ending:
			_, _ = io.WriteString(w, "goodbye")
		case <-r.Context().Done():
		}
	}))
	s.Listener = l.Listen(s.Config, s.Listener)
	listen := s.Config.ConnState
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		listen(c, state)
		if state == http.StateIdle {
			s.idle.Add(1)
		}
	}
	if s.EnableHTTP2 = http2; http2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// stream is an open stream.
type stream struct {
	tb   testing.TB
	said chan string // what it says until it ends
}

// open opens a stream on a connection of its own, or all on one with HTTP/2.
func (s *served) open(path string) *stream {
	s.tb.Helper()
	client := s.Client()
	if !s.EnableHTTP2 {
		client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	}
	response := s.get(client, path) //nolint:bodyclose // closed by the goroutine below
	opened := &stream{s.tb, make(chan string, 1)}
	go func() {
		defer response.Body.Close()
		said, _ := io.ReadAll(response.Body)
		opened.said <- string(said)
	}()
	return opened
}

func (s *served) get(client *http.Client, path string) *http.Response {
	s.tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.tb.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		s.tb.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		s.tb.Fatalf("%s: %v", path, err)
	}
	return response
}

func (s *stream) wantEnd(said string) {
	s.tb.Helper()
	select {
	case got := <-s.said:
		if got != said {
			s.tb.Errorf("the stream said %q at its end, want %q", got, said)
		}
	case <-time.After(time.Minute):
		s.tb.Fatal("the stream goes on")
	}
}

func wantOpen(streams ...*stream) {
	for i, s := range streams {
		s.tb.Helper()
		select {
		case said := <-s.said:
			s.tb.Errorf("stream %d has ended, and said %q", i, said)
		default:
		}
	}
}

func TestLedger_EvictsTheOldestStreamOfTheLargestOwner(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			most := 5
			if http2 {
				most++ // for the connection
			}
			s := serve(t, most, http2)
			bob := s.open("/stream?as=bob")
			first, second := s.open("/stream?as=ann"), s.open("/stream?as=ann")
			third, fourth := s.open("/stream?as=ann"), s.open("/stream?as=ann")
			wantOpen(bob, first, second, third, fourth)
			cat := s.open("/stream?as=cat")
			first.wantEnd("goodbye")
			more := s.open("/stream?as=ann")
			second.wantEnd("goodbye")
			wantOpen(bob, cat, third, fourth, more)
			if log := s.log.String(); !strings.Contains(log, "level=WARN") || !strings.Contains(log, "client=ann authenticated=true") {
				t.Errorf("log %q, want a warning that ann lost one", log)
			}
		})
	}
}

func TestLedger_EvictsIdleConnectionsFirst(t *testing.T) {
	s := serve(t, 4, false)
	kept := &http.Client{Transport: &http.Transport{}}
	read := func() {
		response := s.get(kept, "/")
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	mine := s.open("/stream?as=127.0.0.1") // of the same holder
	read()
	upstreamtest.Eventually(t, "the connection is idle", func() bool { return s.idle.Load() == 1 })
	var others []*stream
	for range 3 {
		others = append(others, s.open("/stream?as=127.0.0.1"))
	}
	wantOpen(append(others, mine)...)
	read() // on another connection: the idle one was closed
	mine.wantEnd("goodbye")
	wantOpen(others...)
}

func TestLedger_ClosesAStreamThatDoesNotEnd(t *testing.T) {
	s := serve(t, 1, false)
	deaf := s.open("/deaf?as=ann")
	s.open("/stream?as=bob")
	deaf.wantEnd("")
}

// Clients that connect and say nothing keep nobody out.
func TestLedger_EvictsSilentConnections(t *testing.T) {
	s := serve(t, 3, false)
	var silent []net.Conn
	for range 100 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		silent = append(silent, conn)
	}
	bob := s.open("/stream?as=bob")
	open := 0
	for _, conn := range silent {
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // which only those wait for that are open
		if _, err := conn.Read(make([]byte, 1)); isTimeout(err) {
			open++
		}
	}
	if open > 3 {
		t.Errorf("%d connections are open, want 3 at most", open)
	}
	wantOpen(bob)
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

func TestLedger_WithoutAConnectionNothingIsBound(t *testing.T) {
	ending, release := edge.New(edge.Options{Connections: 1}).OpenStream(nil, false, "ann")
	release()
	if ending != nil {
		t.Error("a stream without a connection can be evicted")
	}
}

// starved is a listener for which the system has no descriptor while hungry is set.
type starved struct {
	net.Listener

	hungry atomic.Bool
}

func (l *starved) Accept() (net.Conn, error) {
	if l.hungry.Load() {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// If the system runs out of descriptors although there are places left, one is given up, and the operator is told.
func TestListener_MakesRoomWhenThereIsNoDescriptor(t *testing.T) {
	var log upstreamtest.Log
	ledger := edge.New(edge.Options{Connections: 100, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &starved{Listener: inner}
	defer inner.Close()
	listener := ledger.Listen(&http.Server{ReadHeaderTimeout: time.Second}, l)
	client, err := new(net.Dialer).DialContext(t.Context(), "tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := listener.Accept(); err != nil {
		t.Fatal(err)
	}
	l.hungry.Store(true)
	if _, err := listener.Accept(); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("Accept: %v, want %v", err, syscall.EMFILE)
	}
	_ = client.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection: %v, want that it was closed", err)
	}
	if got := log.String(); !strings.Contains(got, `level=WARN msg="connection not accepted" error="accept: too many open files"`) {
		t.Errorf("log %q, want a warning", got)
	}
	_ = inner.Close()
	l.hungry.Store(false)
	if _, err := listener.Accept(); !errors.Is(err, net.ErrClosed) || strings.Contains(log.String(), "closed network") {
		t.Errorf("after the end: %v, log %q", err, log.String())
	}
}
