package http1_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream/client/http1"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// server is one that writes what a test wants.
type server struct {
	address  string
	accepted atomic.Int32
}

// serve runs a server that hands each connection to serve, with its number from 1 on, and closes it afterwards.
func serve(t testing.TB, serve func(number int, r *bufio.Reader, w net.Conn)) *server {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	s := &server{address: listener.Addr().String()}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			number := int(s.accepted.Add(1))
			go func() {
				defer conn.Close()
				serve(number, bufio.NewReader(conn), conn)
			}()
		}
	}()
	return s
}

// client returns a client of the server, and the head of its requests.
func (s *server) client(t testing.TB) (*http1.Client, *http1.Head) {
	c := &http1.Client{MaxIdle: 64, Dial: func(ctx context.Context) (*http1.Link, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.address)
		return &http1.Link{Conn: conn}, err
	}}
	t.Cleanup(c.CloseIdle)
	return c, http1.NewHead(http.MethodPost, &url.URL{Scheme: "http", Host: s.address, Path: "/mcp"}, http.Header{"Accept": {"application/json"}})
}

// read reads one request, and returns its body.
func read(r *bufio.Reader) (string, error) {
	request, err := http.ReadRequest(r)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(request.Body)
	return string(body), err
}

// post makes a request and returns the body of the response.
func post(ctx context.Context, c *http1.Client, head *http1.Head, body string) (string, error) {
	response, err := c.Do(ctx, head, http1.Fields{}, []byte(body), false)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return string(raw), err
}

// What a server sends, the body or error that a request ends with, and whether the connection is used again.
var exchanges = map[string]struct { //nolint:gochecknoglobals // a constant table
	response string
	body     string
	err      string // part of it
	reused   bool
}{
	"a length":                     {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", "", true},
	"chunks":                       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", "ok", "", true},
	"a trailer":                    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n2\r\nok\r\n0\r\nA: b\r\n\r\n", "ok", "", true},
	"no body":                      {"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", "", "", true},
	"a status without a body":      {"HTTP/1.1 204 No Content\r\n\r\n", "", "", true},
	"line feeds alone":             {"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "ok", "", true},
	"five informational responses": {strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 5) + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", "", true},

	"no mark of the end":             {"HTTP/1.1 200 OK\r\n\r\nok", "ok", "", false},
	"Connection: close":              {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "ok", "", false},
	"HTTP/1.0":                       {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", "ok", "", false},
	"both lengths":                   {"HTTP/1.1 200 OK\r\nContent-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok", "", false},
	"bytes after the response":       {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad", "ok", "", false},
	"a body for 204":                 {"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nbad", "", "", false},
	"a body longer than told":        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokbad", "ok", "", false},
	"two lengths":                    {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", "", "Content-Length", false},
	"a length below zero":            {"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok", "", "Content-Length", false},
	"a length that overflows":        {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nok", "", "Content-Length", false},
	"a body shorter than told":       {"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok", "", "unexpected EOF", false},
	"an unknown coding":              {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok", "", "transfer encoding", false},
	"a chunk without a size":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\nok\r\n0\r\n\r\n", "", "chunk", false},
	"a chunk that overflows":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nok\r\n0\r\n\r\n", "", "chunk", false},
	"no last chunk":                  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", "", "unexpected EOF", false},
	"a trailer without end":          {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n" + strings.Repeat("A: b\r\n", 1<<12), "", "trailer", false},
	"too many informational ones":    {strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 6) + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "", "informational", false},
	"another protocol":               {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "", "switches", false},
	"a head of a megabyte":           {"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("b", 1<<20) + "\r\nContent-Length: 2\r\n\r\nok", "", "too long", false},
	"a megabyte of fields":           {"HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 1<<18) + "Content-Length: 2\r\n\r\nok", "", "too long", false},
	"a field without a colon":        {"HTTP/1.1 200 OK\r\nContent-Length 2\r\n\r\nok", "", "malformed", false},
	"a field that begins with blank": {"HTTP/1.1 200 OK\r\n A: b\r\nContent-Length: 2\r\n\r\nok", "", "malformed", false},
	"another text":                   {"hello\r\n\r\n", "", "not HTTP", false},
	"an alert of TLS":                {"\x15\x03\x01\x00\x02\x02\x0a", "", "TLS", false},
	"nothing":                        {"", "", "EOF", false},
}

func TestDo_TrustsAConnectionOnlyAfterAWholeResponse(t *testing.T) {
	t.Parallel()
	for name, test := range exchanges {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(number int, r *bufio.Reader, w net.Conn) {
				if _, err := read(r); err != nil {
					return
				}
				if _, _ = io.WriteString(w, test.response); !test.reused && test.body == "" {
					return // the client waits for more, or does not
				}
				if _, err := read(r); err == nil { // it is used again
					_, _ = fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d", number)
				}
			})
			if !test.reused { // the server ends the body, or the client would wait for it
				s = serve(t, func(number int, r *bufio.Reader, w net.Conn) {
					if _, err := read(r); err != nil {
						return
					}
					if number == 1 {
						_, _ = io.WriteString(w, test.response)
						return
					}
					_, _ = fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d", number)
				})
			}
			c, head := s.client(t)
			body, err := post(t.Context(), c, head, "{}")
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) || err == nil && body != test.body {
				t.Errorf("the first request: %q, %v, want %q, %q", body, err, test.body, test.err)
			}
			want := "2"
			if test.reused {
				want = "1"
			}
			if body, err := post(t.Context(), c, head, "{}"); body != want || err != nil {
				t.Errorf("the second request: %q, %v, want connection %s", body, err, want)
			}
		})
	}
}

// Wherever a connection ends, the request ends with an error, and never with less than the whole body.
func TestDo_ConnectionThatEndsAtEachByte(t *testing.T) {
	t.Parallel()
	for _, whole := range []string{exchanges["a length"].response, exchanges["a trailer"].response} {
		var cut atomic.Int32
		s := serve(t, func(_ int, r *bufio.Reader, w net.Conn) {
			if _, err := read(r); err == nil {
				_, _ = io.WriteString(w, whole[:cut.Load()])
			}
		})
		c, head := s.client(t)
		for i := range len(whole) {
			cut.Store(int32(i))
			body, err := post(t.Context(), c, head, "{}")
			if err == nil {
				t.Errorf("%q ended in %q", whole[:i], body)
			}
			if failed, ok := errors.AsType[*http1.Error](err); ok && (failed.IsReused || failed.HasAnswer != (i > 0)) {
				t.Errorf("%q: %+v", whole[:i], failed)
			}
		}
	}
}

// A server says something on a connection that no request uses, or closes it: the next request does not meet it.
func TestDo_WhatComesBetweenRequestsIsNoAnswer(t *testing.T) {
	t.Parallel()
	const unasked = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nunasked"
	for name, between := range map[string]func(net.Conn){
		"a response": func(w net.Conn) { _, _ = io.WriteString(w, unasked) },
		"a timeout": func(w net.Conn) {
			_, _ = io.WriteString(w, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n")
		},
		"a closed one":       func(net.Conn) {},
		"one that was reset": func(w net.Conn) { _ = w.(*net.TCPConn).SetLinger(0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := make(chan struct{})
			s := serve(t, func(number int, r *bufio.Reader, w net.Conn) {
				if _, err := read(r); err != nil {
					return
				}
				_, _ = fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d", number)
				if number > 1 {
					return
				}
				between(w)
				_ = w.Close()
				close(said)
			})
			c, head := s.client(t)
			first, err := post(t.Context(), c, head, "{}")
			<-said
			second, err2 := post(t.Context(), c, head, "{}")
			if first != "1" || second != "2" || err != nil || err2 != nil {
				t.Errorf("%q, %v and %q, %v, want connections 1 and 2", first, err, second, err2)
			}
		})
	}
}

// A server may answer before it has read the request, and close the connection: the answer counts, and nothing follows it.
func TestDo_AnswerBeforeTheRequestWasRead(t *testing.T) {
	t.Parallel()
	s := serve(t, func(number int, r *bufio.Reader, w net.Conn) {
		if number > 1 {
			_, _ = read(r)
		} else if _, err := r.ReadByte(); err != nil {
			return
		}
		_, _ = fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d", number)
	})
	c, head := s.client(t)
	for _, want := range []string{"1", "2"} {
		if got, err := post(t.Context(), c, head, strings.Repeat("a", 8<<20)); got != want || err != nil {
			t.Errorf("%q, %v, want the answer of connection %s", got, err, want)
		}
	}
}

// With which a server closes a kept connection while the request is on its way.
func TestDo_FarewellIsNoAnswer(t *testing.T) {
	t.Parallel()
	const problem = `{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"no"}}`
	for response, isAnswer := range map[string]bool{
		"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n":                                   false,
		"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n":            false,
		"HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n":                                 true,
		"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n":                               true,
		"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/json; charset=utf-8\r\n\r\n" + problem: true,
	} {
		s := serve(t, func(_ int, r *bufio.Reader, w net.Conn) {
			if _, err := read(r); err != nil {
				return
			}
			_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			if _, err := read(r); err == nil {
				_, _ = io.WriteString(w, response)
			}
		})
		c, head := s.client(t)
		if _, err := post(t.Context(), c, head, "{}"); err != nil {
			t.Fatal(err)
		}
		_, err := post(t.Context(), c, head, "{}")
		failed, ok := errors.AsType[*http1.Error](err)
		if ok == isAnswer || ok && (!failed.IsReused || failed.HasAnswer) {
			t.Errorf("%q: %v (%+v)", response, err, failed)
		}
	}
}

func TestDo_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	gone := errors.New("the client has gone")
	for name, test := range map[string]struct {
		sends string
		err   error
	}{
		"before the head":  {"", gone},
		"within the head":  {"HTTP/1.1 200 OK\r\n", gone},
		"within the body":  {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", gone},
		"late, no head":    {"", context.DeadlineExceeded},
		"late, in a body":  {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", context.DeadlineExceeded},
		"drips for longer": {"drip", context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent, closed := make(chan struct{}), make(chan struct{})
			s := serve(t, func(_ int, r *bufio.Reader, w net.Conn) {
				defer close(closed)
				if _, err := read(r); err != nil {
					return
				}
				if test.sends == "drip" {
					_, err := io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
					for err == nil {
						_, err = io.WriteString(w, "o")
						time.Sleep(time.Millisecond)
					}
					return
				}
				_, _ = io.WriteString(w, test.sends)
				close(sent)
				_, _ = r.ReadByte() // until the client closes
			})
			c, head := s.client(t)
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			if errors.Is(test.err, context.DeadlineExceeded) {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
			} else {
				go func() {
					<-sent
					end(gone)
				}()
			}
			if _, err := post(ctx, c, head, "{}"); err == nil || !errors.Is(context.Cause(ctx), test.err) {
				t.Errorf("the request ended with %v, its context with %v", err, context.Cause(ctx))
			}
			<-closed
		})
	}
}

// moving is a context like a deadline that is paused while a person is asked.
type moving struct {
	context.Context //nolint:containedctx // it is one

	until atomic.Int64
	asked atomic.Int32
}

func (m *moving) Deadline() (time.Time, bool) {
	m.asked.Add(1)
	return time.Unix(0, m.until.Load()), true
}

func (m *moving) Parent() context.Context { return m.Context }

func (m *moving) Done() <-chan struct{} { panic("nothing has to wait for it") }

func (m *moving) Err() error {
	if time.Now().UnixNano() >= m.until.Load() {
		return context.DeadlineExceeded
	}
	return m.Context.Err()
}

func TestDo_DeadlineMayMove(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	s := serve(t, func(_ int, r *bufio.Reader, w net.Conn) {
		for {
			body, err := read(r)
			switch {
			case err != nil || body == "hang":
				_, _ = r.ReadByte()
				return
			case body == "wait":
				<-answer
			}
			_, _ = io.WriteString(w, exchanges["a length"].response)
		}
	})
	c, head := s.client(t)
	if _, err := post(t.Context(), c, head, "{}"); err != nil { // to connect needs a channel and a timer
		t.Fatal(err)
	}
	later := &moving{Context: t.Context()}
	later.until.Store(time.Now().Add(20 * time.Millisecond).UnixNano())
	go func() {
		for later.asked.Load() < 1 {
			time.Sleep(time.Millisecond)
		}
		later.until.Store(time.Now().Add(time.Hour).UnixNano())
		for later.asked.Load() < 2 { // the first one has passed
			time.Sleep(time.Millisecond)
		}
		close(answer)
	}()
	if body, err := post(later, c, head, "wait"); body != "ok" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	over := &moving{Context: t.Context()}
	over.until.Store(time.Now().Add(20 * time.Millisecond).UnixNano())
	if _, err := post(over, c, head, "hang"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want that the time is over", err)
	}
}

func TestFields_RefuseLineBreaks(t *testing.T) {
	t.Parallel()
	s := serve(t, func(int, *bufio.Reader, net.Conn) {})
	c, good := s.client(t)
	secret := "secret\r\nInjected: yes"
	for name, value := range map[string]string{"Mcp-Name": secret, "Authorization": "a\nb" + secret, "Cookie": "a\x00" + secret, "a b": "secret", "A\r\nB": "secret", "": "secret"} {
		var extra http1.Fields
		extra.Add(name, value)
		_, err := c.Do(t.Context(), good, extra, nil, false) //nolint:bodyclose // there is none
		bad := http1.NewHead(http.MethodGet, good.URL(), http.Header{name: {value}})
		_, err2 := c.Do(t.Context(), bad, http1.Fields{}, nil, false) //nolint:bodyclose // there is none
		for _, err := range []error{err, err2} {
			if err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: %q: %v", name, value, err)
			}
		}
	}
	for _, target := range []*url.URL{{Scheme: "http", Host: "a b", Path: "/"}, {Scheme: "http", Host: "a\r\nB: c", Path: "/"}, {Scheme: "http", Host: "a", Opaque: "/ HTTP/1.1\r\nA: b"}} {
		if raw, err := http1.NewHead(http.MethodGet, target, nil).Append(nil, &http1.Link{}, http1.Fields{}, nil); err == nil {
			t.Errorf("%q is sent", raw)
		}
	}
}

func TestHead_IsThatOfNetHTTP(t *testing.T) {
	t.Parallel()
	for address, host := range map[string]string{
		"http://mcp.example/a%2Fb?c=d%20e": "mcp.example", "https://bücher.example:8443": "xn--bcher-kva.example:8443", "http://[::1]:80/": "[::1]:80",
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		var extra http1.Fields
		extra.Add("Mcp-Name", "a")
		raw, err := http1.NewHead(http.MethodPost, u, http.Header{"B": {"c", "d"}}).Append(nil, &http1.Link{}, extra, []byte("body"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		body, err := io.ReadAll(got.Body)
		if got.Host != host || got.RequestURI != u.RequestURI() || string(body) != "body" || err != nil || fmt.Sprint(got.Header) != "map[B:[c d] Content-Length:[4] Mcp-Name:[a]]" {
			t.Errorf("%q was read as %s %s %v %q, %v", raw, got.Host, got.RequestURI, got.Header, body, err)
		}
	}
}

// Over TLS a connection is used again as well, unless the server has said something that TLS has already read, or has closed it.
func TestDo_OverTLS(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(nil) // for its certificate
	defer certified.Close()
	pool := x509.NewCertPool()
	pool.AddCert(certified.Certificate())
	settings := &tls.Config{RootCAs: pool, ServerName: "example.com"}
	for name, test := range map[string]struct {
		after string // what the server writes behind the first response
		close bool
		want  string // the connections of three requests
	}{"nothing": {want: "1 1 1"}, "bytes behind it": {"HTTP/1.1 200 OK\r\n", false, "1 2 2"}, "the end": {"", true, "1 2 2"}} {
		for _, toProxy := range []bool{false, true} {
			said := make(chan struct{})
			s := serve(t, func(number int, _ *bufio.Reader, w net.Conn) {
				secured := tls.Server(w, certified.TLS)
				r := bufio.NewReader(secured)
				for first := number == 1; ; first = false {
					if _, err := read(r); err != nil {
						return
					}
					_, _ = fmt.Fprintf(secured, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d", number)
					if !first {
						continue
					}
					_, _ = io.WriteString(secured, test.after)
					if test.close {
						_ = secured.Close()
					}
					close(said)
				}
			})
			c, head := s.client(t)
			c.TLS = func() *tls.Config { return settings }
			if dial := c.Dial; toProxy { // which has the TLS, and the server behind it has none
				c.TLS = nil
				c.Dial = func(ctx context.Context) (*http1.Link, error) {
					link, err := dial(ctx)
					if err == nil {
						link.Conn = tls.Client(link.Conn, settings)
					}
					return link, err
				}
			}
			var got []string
			for range 3 {
				connection, err := post(t.Context(), c, head, "{}")
				if err != nil {
					t.Errorf("%s, to a proxy: %t: %v", name, toProxy, err)
					break
				}
				got = append(got, connection)
				<-said
			}
			upstreamtest.Equal(t, test.want, strings.Join(got, " "), "%s, to a proxy: %t: connections", name, toProxy)
		}
	}
}

// 64 callers share the connections to a server that does at random what no server should. A caller gets its own answer, or an error.
func TestDo_NobodyGetsAnothersAnswer(t *testing.T) {
	t.Parallel()
	const callers, requests = 64, 50
	s := serve(t, func(number int, r *bufio.Reader, w net.Conn) {
		random := rand.New(rand.NewPCG(uint64(number), 1)) //nolint:gosec // a test
		for {
			body, err := read(r)
			if err != nil {
				return
			}
			answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			switch random.IntN(12) {
			case 0: // closes without an answer
				return
			case 1: // in the middle of one
				_, _ = io.WriteString(w, answer[:random.IntN(len(answer))])
				return
			case 2: // twice
				_, _ = io.WriteString(w, answer+answer)
			case 3: // chunks
				_, _ = fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
			case 4: // a body that its head does not announce
				_, _ = io.WriteString(w, strings.Replace(answer, "200 OK", "204 No Content", 1))
			case 5: // a longer one
				_, _ = io.WriteString(w, answer+"more")
			case 6: // both lengths
				_, _ = fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
			case 7: // closed afterwards
				_, _ = io.WriteString(w, answer)
				return
			default:
				_, _ = io.WriteString(w, answer)
			}
		}
	})
	c, head := s.client(t)
	var answers atomic.Int32
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range requests {
				ctx, cancel := context.WithCancel(t.Context())
				if i%7 == 0 {
					time.AfterFunc(time.Duration(i)*time.Microsecond, cancel)
				}
				want := strconv.Itoa(caller) + "/" + strconv.Itoa(i)
				got, err := post(ctx, c, head, want)
				cancel()
				if err == nil && got != want && got != "" { // the 204
					t.Errorf("%s got %s", want, got)
				}
				if err == nil {
					answers.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := answers.Load(); n < callers*requests/4 {
		t.Errorf("%d answers", n)
	}
	t.Logf("%d answers over %d connections", answers.Load(), s.accepted.Load())
}

func TestDo_ReadsWhatTheServerSentFirst(t *testing.T) {
	t.Parallel()
	sent := make(chan struct{})
	s := serve(t, func(_ int, r *bufio.Reader, w net.Conn) {
		_, _ = io.WriteString(w, exchanges["a length"].response)
		close(sent)
		_, _ = io.Copy(io.Discard, r)
	})
	c, head := s.client(t)
	dial := c.Dial
	c.Dial = func(ctx context.Context) (*http1.Link, error) { defer func() { <-sent }(); return dial(ctx) }
	got, err := post(t.Context(), c, head, "{}")
	upstreamtest.Equal(t, "ok", got, "the answer, with %v", err)
}

func TestClient_KeepsNoMoreThanItMay(t *testing.T) {
	t.Parallel()
	var open atomic.Int32
	both, once := make(chan struct{}), sync.Once{}
	s := serve(t, func(number int, r *bufio.Reader, w net.Conn) {
		open.Add(1)
		defer open.Add(-1)
		for {
			if _, err := read(r); err != nil {
				return
			}
			if number == 2 {
				once.Do(func() { close(both) })
			}
			<-both
			_, _ = io.WriteString(w, exchanges["a length"].response)
		}
	})
	c, head := s.client(t)
	c.MaxIdle = 1
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if _, err := post(t.Context(), c, head, "{}"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	upstreamtest.Eventually(t, "one connection is closed", func() bool { return open.Load() == 1 })
	if _, err := post(t.Context(), c, head, "{}"); err != nil || s.accepted.Load() != 2 {
		t.Errorf("%v, %d connections, want the second one again", err, s.accepted.Load())
	}
	c.CloseIdle()
	upstreamtest.Eventually(t, "the other one is closed", func() bool { return open.Load() == 0 })
}

// A response to no request is read, whatever it is, and never with more than a head's bound of memory for its head.
func FuzzResponse(f *testing.F) {
	for _, test := range exchanges {
		f.Add([]byte(test.response))
	}
	f.Fuzz(func(t *testing.T, response []byte) {
		near, far := net.Pipe()
		defer near.Close()
		go func() {
			defer far.Close()
			if _, err := read(bufio.NewReader(far)); err == nil {
				_, _ = far.Write(response)
			}
		}()
		dialed := false
		c := &http1.Client{MaxIdle: 1, Dial: func(context.Context) (*http1.Link, error) {
			if dialed {
				return nil, os.ErrClosed
			}
			dialed = true
			return &http1.Link{Conn: near}, nil
		}}
		defer c.CloseIdle()
		head := http1.NewHead(http.MethodPost, &url.URL{Scheme: "http", Host: "mcp.example"}, nil)
		got, err := c.Do(t.Context(), head, http1.Fields{}, []byte("{}"), false)
		// The size of the reader bounds the trailer, so it is the client's.
		want, wantErr := http.ReadResponse(bufio.NewReaderSize(bytes.NewReader(response), 16<<10), &http.Request{Method: http.MethodPost})
		if err != nil {
			return
		}
		defer got.Body.Close()
		// What is read is what net/http reads, but for informational responses and a bound.
		body, err := io.ReadAll(got.Body)
		if wantErr != nil || want.StatusCode/100 == 1 {
			return
		}
		defer want.Body.Close()
		wantBody, wantErr := io.ReadAll(want.Body)
		if got.StatusCode != want.StatusCode || !bytes.Equal(body, wantBody) || (err == nil) != (wantErr == nil) {
			t.Errorf("%d %q, %v, want %d %q, %v", got.StatusCode, body, err, want.StatusCode, wantBody, wantErr)
		}
	})
}
