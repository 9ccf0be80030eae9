package httpconn

import (
	"bufio"
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
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// counted is a connection that counts what it is asked.
type counted struct {
	net.Conn

	deadlines int
	writes    [][]byte
	fail      error // of the next write
}

func (c *counted) SetReadDeadline(t time.Time) error {
	c.deadlines++
	return c.Conn.SetReadDeadline(t)
}

func (c *counted) Write(p []byte) (int, error) {
	if c.fail != nil {
		return 0, c.fail
	}
	c.writes = append(c.writes, bytes.Clone(p))
	return c.Conn.Write(p)
}

// pair is a connection and what is below and beyond it.
func pair(t *testing.T) (c *Conn, below *counted, peer net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	below = &counted{Conn: near}
	return newConn(below), below, far
}

// longAgo is how net/http breaks off reading.
func longAgo() time.Time { return time.Unix(1, 0) }

func TestADeadlinePassesWhenItWasSetTo(t *testing.T) {
	for _, test := range []struct {
		name string
		// deadlines are set one after the other, from now; never is none.
		deadlines []time.Duration
		want      time.Duration
	}{
		{"one", []time.Duration{10 * time.Second}, 10 * time.Second},
		{"moved on", []time.Duration{10 * time.Second, 2 * time.Minute}, 2 * time.Minute},
		{"brought forward", []time.Duration{2 * time.Minute, 10 * time.Second}, 10 * time.Second},
		{"forward and back", []time.Duration{2 * time.Minute, 10 * time.Second, 30 * time.Second}, 30 * time.Second},
		{"taken away and set", []time.Duration{10 * time.Second, never, 30 * time.Second}, 30 * time.Second},
		{"broken off", []time.Duration{30 * time.Second, brokenOff}, 0},
		{"broken off before", []time.Duration{30 * time.Second, brokenOff, never, 2 * time.Minute, 10 * time.Second}, 10 * time.Second},
		{"broken off before, the next is near", []time.Duration{brokenOff, never, time.Second}, time.Second},
		{"broken off before, the next is far", []time.Duration{brokenOff, never, time.Hour}, time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _, _ := pair(t)
				begun := time.Now()
				for _, d := range test.deadlines {
					if err := c.SetReadDeadline(at(begun, d)); err != nil {
						t.Fatal(err)
					}
				}
				_, err := c.Read(make([]byte, 1))
				if took := time.Since(begun); !errors.Is(err, os.ErrDeadlineExceeded) || took != test.want {
					t.Errorf("got %v after %v, want a passed deadline after %v", err, took, test.want)
				}
			})
		})
	}
}

const never, brokenOff = -1, -2

func at(begun time.Time, d time.Duration) time.Time {
	switch d {
	case never:
		return time.Time{}
	case brokenOff:
		return longAgo()
	}
	return begun.Add(d)
}

func TestAReadGoesOnAfterADeadlineThatWasMovedOn(t *testing.T) {
	for _, later := range []time.Duration{time.Minute, never} {
		synctest.Test(t, func(t *testing.T) {
			c, _, peer := pair(t)
			_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
			_ = c.SetReadDeadline(at(time.Now(), later))
			go func() {
				time.Sleep(30 * time.Second)
				_, _ = peer.Write([]byte("here"))
			}()
			got := make([]byte, 10)
			if n, err := c.Read(got); err != nil || string(got[:n]) != "here" {
				t.Errorf("got %q, %v", got[:n], err)
			}
		})
	}
}

func TestAReadIsBrokenOffWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := pair(t)
		go func() {
			time.Sleep(time.Second)
			_ = c.SetReadDeadline(longAgo())
		}()
		begun := time.Now()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("got %v after %v", err, time.Since(begun))
		}
	})
}

func TestAWriteGoesOnAfterADeadlineThatWasMovedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, peer := pair(t)
		_ = c.SetWriteDeadline(time.Now().Add(10 * time.Second))
		_ = c.SetWriteDeadline(time.Now().Add(40 * time.Second))
		var got []byte
		go func() {
			half := make([]byte, 3)
			n, _ := peer.Read(half) // before the first deadline
			got = append(got, half[:n]...)
			time.Sleep(20 * time.Second)
			n, _ = peer.Read(half)
			got = append(got, half[:n]...)
		}()
		n, err := c.Write([]byte("abcdefg")) // of which nobody reads the end
		if synctest.Wait(); n != 6 || !errors.Is(err, os.ErrDeadlineExceeded) || string(got) != "abcdef" {
			t.Errorf("got %q, wrote %d, %v", got, n, err)
		}
	})
}

// The deadlines of a request as net/http sets them: idle, header, whole request, none while the handler runs, long ago to end
// the background read, none.
func TestTheDeadlinesOfARequestAreHardlyEverArmed(t *testing.T) {
	for _, test := range []struct {
		name string
		// begun is set where the background read has begun when it is broken off.
		begun bool
		want  int // for ten requests
	}{{"answered at once", false, 0}, {"answered later", true, 20}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, below, peer := pair(t)
				request := func() {
					now := time.Now()
					for _, d := range []time.Duration{2 * time.Minute, 10 * time.Second, 30 * time.Second} {
						_ = c.SetReadDeadline(at(now, d))
						go func() { _, _ = peer.Write([]byte("x")) }()
						if _, err := c.Read(make([]byte, 1)); err != nil {
							t.Fatal(err)
						}
					}
					_ = c.SetReadDeadline(time.Time{})
					background := func() {
						if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
							t.Errorf("got %v, want it broken off", err)
						}
					}
					if test.begun {
						var reading sync.WaitGroup
						reading.Go(background)
						synctest.Wait()
						_ = c.SetReadDeadline(longAgo())
						reading.Wait()
					} else {
						_ = c.SetReadDeadline(longAgo())
						background()
					}
					_ = c.SetReadDeadline(time.Time{})
				}
				request()
				before := below.deadlines
				for range 10 {
					request()
				}
				if got := below.deadlines - before; got != test.want {
					t.Errorf("%d deadlines for ten requests, want %d", got, test.want)
				}
			})
		})
	}
}

// served answers by the handler over real HTTP.
func served(tb testing.TB, handler http.HandlerFunc, wrap func(net.Listener) net.Listener) *httptest.Server {
	tb.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Listener = Listen(s.Config, wrap(s.Listener))
	s.Start()
	tb.Cleanup(s.Close)
	return s
}

// fetch returns what a server answers.
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

func asIs(l net.Listener) net.Listener { return l }

// watching tells of the connections that a listener accepts.
type watching struct {
	net.Listener

	accepted chan *counted
}

func (l watching) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	below := &counted{Conn: c}
	l.accepted <- below
	return below, nil
}

func TestWhatIsHeldArrivesAsItWasWritten(t *testing.T) {
	head, large, tail := []byte("head "), bytes.Repeat([]byte("0123456789"), 30_000), []byte(" tail")
	for _, test := range []struct {
		name  string
		parts [][]byte
	}{
		{"nothing", nil},
		{"small", [][]byte{head}},
		{"as large as the buffer", [][]byte{large[:serverBuffer]}},
		{"a little larger", [][]byte{large[:serverBuffer+1]}},
		{"large", [][]byte{large}},
		{"in three", [][]byte{head, large, tail}},
		{"many small", slices.Repeat([][]byte{large[:1000]}, 100)},
		{"many large", slices.Repeat([][]byte{large[:10_000]}, 30)},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := bytes.Join(test.parts, nil)
			s := served(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", strconv.Itoa(len(want)))
				held := Hold(r.Context())
				if held == nil {
					t.Error("nothing can be held")
				}
				for _, part := range test.parts {
					if _, err := w.Write(part); err != nil {
						t.Error(err)
					}
				}
				if err := held.Send(w); err != nil {
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

func TestNothingLeavesBeforeItIsSent(t *testing.T) {
	accepted := make(chan *counted, 1)
	s := served(t, func(w http.ResponseWriter, r *http.Request) {
		below := <-accepted
		held := Hold(r.Context())
		if Hold(r.Context()) != nil {
			t.Error("held twice")
		}
		_, _ = w.Write(bytes.Repeat([]byte("x"), 3*serverBuffer))
		if len(below.writes) > 0 {
			t.Errorf("%d writes before Send", len(below.writes))
		}
		if err := held.Send(w); err != nil || len(below.writes) == 0 {
			t.Errorf("%v, %d writes after Send", err, len(below.writes))
		}
		sent := len(below.writes)
		_, _ = io.WriteString(w, "more")
		if err := http.NewResponseController(w).Flush(); err != nil || len(below.writes) == sent {
			t.Errorf("%v, %d writes after what came later", err, len(below.writes))
		}
	}, func(l net.Listener) net.Listener { return watching{l, accepted} })
	if got, err := fetch(t, s); err != nil || !strings.HasSuffix(string(got), "xmore") {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// A response that broke off in the middle must not be followed by another on the same connection, nor a request be carried
// out for one that cannot arrive.
func TestAConnectionOnWhichSendingFailedIsClosed(t *testing.T) {
	accepted := make(chan *counted, 1)
	s := served(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case below := <-accepted:
			w.Header().Set("Content-Length", "100000")
			held := Hold(r.Context())
			_, _ = w.Write(make([]byte, 100_000))
			below.fail = errors.New("broken")
			if err := held.Send(w); !errors.Is(err, below.fail) {
				t.Errorf("got %v", err)
			}
			below.fail = nil
		default:
			t.Error("the second request, which was there already, was carried out")
		}
	}, func(l net.Listener) net.Listener { return watching{l, accepted} })
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); len(got) > 0 || errors.Is(err, os.ErrDeadlineExceeded) { // a reset is as good as an end
		t.Errorf("got %.100q, %v, want nothing", got, err)
	}
}

func TestOverTLSNothingIsHeld(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		held := Hold(r.Context())
		if held != nil {
			t.Error("held")
		}
		_, _ = w.Write(make([]byte, 100_000))
		if err := held.Send(w); err != nil {
			t.Error(err)
		}
	}))
	s.Listener = Listen(s.Config, s.Listener)
	s.StartTLS()
	defer s.Close()
	if got, err := fetch(t, s); err != nil || len(got) != 100_000 {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// By CloseWrite the server says its last words to a client that is still sending, which would hear of a reset otherwise.
func TestOneDirectionCanBeClosed(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peer, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	conn, err := Listen(&http.Server{}, l).Accept() //nolint:gosec // never serves
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	half, ok := conn.(interface{ CloseWrite() error }) // as net/http looks for it
	if !ok {
		t.Fatal("no CloseWrite")
	}
	if err := half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(peer); err != nil || len(rest) > 0 {
		t.Errorf("the peer got %q, %v, want the end", rest, err)
	}
	_, _ = io.WriteString(peer, "still here")
	got := make([]byte, 10)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "still here" {
		t.Errorf("got %q, %v from the peer", got, err)
	}
}

// What it buys: one response of 25 KB over loopback, held and as net/http writes it, the client's part included. 28
// allocations each, the client's and the server's.
func BenchmarkResponse(b *testing.B) {
	body := make([]byte, 25_000)
	for _, hold := range []bool{false, true} {
		b.Run(fmt.Sprintf("hold=%t", hold), func(b *testing.B) {
			s := served(b, func(w http.ResponseWriter, r *http.Request) {
				var held *Held
				if hold {
					held = Hold(r.Context())
				}
				w.Header()["Content-Length"] = []string{"25000"}
				_, _ = w.Write(body)
				if err := held.Send(w); err != nil {
					b.Error(err)
				}
			}, asIs)
			conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", s.Listener.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			in := bufio.NewReader(conn)
			for b.Loop() {
				if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
					b.Fatal(err)
				}
				response, err := http.ReadResponse(in, nil)
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.Copy(io.Discard, response.Body)
				if _ = response.Body.Close(); err != nil || n != 25_000 {
					b.Fatal(n, err)
				}
			}
		})
	}
}
