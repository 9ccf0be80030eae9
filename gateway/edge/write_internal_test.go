package edge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// moreThanBuffered is more than an HTTP server keeps in any buffer.
const moreThanBuffered = 64 << 10

// serve runs an HTTP server whose listener wrap may replace.
func serve(tb testing.TB, handler http.HandlerFunc, wrap func(net.Listener) net.Listener) *httptest.Server {
	tb.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Listener = unbounded().Listen(s.Config, wrap(s.Listener), nil)
	s.Start()
	tb.Cleanup(s.Close)
	return s
}

// unbounded returns a ledger that bounds nothing.
func unbounded() *Ledger { return New(Options{}) }

func asIs(l net.Listener) net.Listener { return l }

// fetch returns the body that a server sends.
func fetch(t *testing.T, s *httptest.Server) ([]byte, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// recorder records the writes to a connection. Those of one writev are several.
type recorder struct {
	net.Conn

	writes [][]byte
	fail   error // of the next write
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.fail != nil {
		return 0, r.fail
	}
	r.writes = append(r.writes, p)
	return r.Conn.Write(p)
}

// recording puts a recorder under each connection that a listener accepts.
type recording struct {
	net.Listener

	accepted chan *recorder
}

func (l recording) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	r := &recorder{Conn: c}
	l.accepted <- r
	return r, nil
}

// Sizes are around the server's buffer sizes. This package does not know them, and the result must not depend on them.
func TestWrite_SendsPartsInOrder(t *testing.T) {
	head, large, tail := []byte("head "), bytes.Repeat([]byte("0123456789"), 30_000), []byte(" tail")
	cases := map[string][][]byte{
		"nothing":       nil,
		"an empty part": {head, {}, tail},
		"small":         {head},
		"large":         {large},
		"in three":      {head, large, tail},
		"many small":    slices.Repeat([][]byte{large[:1000]}, 100),
		"many large":    slices.Repeat([][]byte{large[:10_000]}, 30),
		"overlapping":   {large[:10_000], large[5000:15_000], large[:10_000]},
	}
	for _, size := range []int{2 << 10, 4 << 10, 8 << 10, 32 << 10} {
		for _, n := range []int{size - 200, size - 1, size, size + 1} {
			cases[fmt.Sprint(n, " bytes")] = [][]byte{large[:n]}
			cases[fmt.Sprint(n, " bytes after others")] = [][]byte{head, large[:n]}
		}
	}
	for name, parts := range cases {
		t.Run(name, func(t *testing.T) {
			want := bytes.Join(parts, nil)
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", strconv.Itoa(len(want)))
				if err := Write(r.Context(), w, parts...); err != nil {
					t.Error(err)
				}
			}, asIs)
			for range 3 { // on one connection
				if got, err := fetch(t, s); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("got %d bytes, %v, want the %d that were written", len(got), err, len(want))
				}
			}
		})
	}
}

func TestWrite_MixesWithOtherWrites(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "before ")
		if err := Write(r.Context(), w, bytes.Repeat([]byte("x"), moreThanBuffered)); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, " after")
	}, asIs)
	want := "before " + strings.Repeat("x", moreThanBuffered) + " after"
	if got, err := fetch(t, s); err != nil || string(got) != want {
		t.Errorf("got %d bytes, %v, want %d", len(got), err, len(want))
	}
}

// The client must not take the next response for the rest of one that broke off, and a request whose response cannot arrive
// must not be carried out.
func TestWrite_ClosesConnectionAfterError(t *testing.T) {
	accepted := make(chan *recorder, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case below := <-accepted:
			w.Header().Set("Content-Length", strconv.Itoa(moreThanBuffered))
			below.fail = errors.New("broken")
			if err := Write(r.Context(), w, make([]byte, moreThanBuffered)); !errors.Is(err, below.fail) {
				t.Errorf("Write() = %v, want the connection's error", err)
			}
			below.fail = nil
		default:
			t.Error("the second request, which the client had already sent, was carried out")
		}
	}, func(l net.Listener) net.Listener { return recording{l, accepted} })
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, strings.Repeat("GET / HTTP/1.1\r\nHost: h\r\n\r\n", 2)); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); len(got) > 0 || errors.Is(err, os.ErrDeadlineExceeded) { // a reset is as good as an end
		t.Errorf("got %.100q, %v, want nothing", got, err)
	}
}

func TestWrite_WorksOverTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := Write(r.Context(), w, []byte("head "), make([]byte, moreThanBuffered)); err != nil {
			t.Error(err)
		}
	}))
	s.Listener = unbounded().Listen(s.Config, s.Listener, nil)
	s.StartTLS()
	defer s.Close()
	if got, err := fetch(t, s); err != nil || len(got) != moreThanBuffered+len("head ") {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}
