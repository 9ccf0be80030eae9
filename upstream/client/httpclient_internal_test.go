package client

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

// writes counts calls.
type writes int

func (w *writes) Write(p []byte) (int, error) {
	*w++
	return len(p), nil
}

func TestSetBody_LeavesInOneWriteWithTheHeader(t *testing.T) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://upstream.example", nil)
	if err != nil {
		t.Fatal(err)
	}
	setBody(r, []byte(`{"jsonrpc":"2.0"}`))
	var n writes
	if err := r.Write(&n); err != nil || n != 1 {
		t.Errorf("%d writes, %v, want one", n, err)
	}
}

// Thousands of servers may be down at once, and what they once needed is of no use until they are back. Nor is a connection to a proxy that
// answers in their place.
func TestDialer_KeepsNoNetworkForAServerThatIsDown(t *testing.T) {
	var open atomic.Int32
	proxy := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	proxy.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	proxy.Start()
	defer proxy.Close()
	for name, url := range map[string]string{"nobody listens": "http://" + upstreamtest.Address(t), "502": proxy.URL} {
		d := NewDialer(config.Upstream{
			Name: "up", URL: url, Transport: config.StreamableHTTP, Concurrency: 1, Timeout: time.Second, MaxMessage: 1 << 20,
		}, Options{})
		if d.http.connections() == nil {
			t.Fatal("there is no network for a request")
		}
		if _, err := d.Connect(t.Context(), SessionOptions{}); err == nil {
			t.Fatal("a server answered that is down")
		}
		if d.http.network.Load() != nil {
			t.Errorf("%s: the network is kept", name)
		}
	}
	for deadline := time.Now().Add(time.Minute); open.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections to the proxy are kept", open.Load())
		}
	}
}

// A server that refuses a connection says why, and closes it with a request unread: the next write fails.
func TestLeavingErrorsToReads_LastWordsAreRead(t *testing.T) {
	t.Parallel()
	const words = "refused"
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		server, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.ReadFull(server, make([]byte, 1))
		_, _ = io.WriteString(server, words)
		_ = server.Close()
	}()

	var plain net.Conn
	conn, err := leavingErrorsToReads(func(ctx context.Context, network, address string) (net.Conn, error) {
		var err error
		plain, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return plain, err
	})(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	for err == nil { // until a write fails
		_, err = plain.Write([]byte("request"))
	}
	if n, err := conn.Write([]byte("request")); n != len("request") || err != nil {
		t.Errorf("Write() = %d, %v, want it to succeed", n, err)
	}
	if got, err := io.ReadAll(conn); string(got) != words {
		t.Errorf("read %q, %v, want %q", got, err, words)
	}
	_ = conn.Close()
	if _, err := conn.Write([]byte("request")); err == nil {
		t.Error("Write() on a connection that was closed here succeeds")
	}
}

// Over HTTP/1.1, net/http may have read the refusal, and closed the connection, before it writes the request.
func TestWithRefusal_AddsTheAlertThatClosedTheConnection(t *testing.T) {
	t.Parallel()
	ours := upstreamtest.NewAuthority(t, "test")
	near, far := net.Pipe()
	server := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{ours.Server("mcp.example")}, ClientAuth: tls.RequireAnyClientCert})
	go func() {
		_ = server.HandshakeContext(t.Context()) // which fails
		_, _ = io.Copy(io.Discard, far)          // the client's farewell
	}()
	secured := tls.Client(near, &tls.Config{RootCAs: ours.Pool(), ServerName: "mcp.example"})
	if _, err := secured.Read(make([]byte, 1)); err == nil {
		t.Fatal("the server takes a client without a certificate")
	}
	_ = secured.Close()
	_, err := secured.Write([]byte("request"))
	var c connection
	c.secured.Store(secured)
	if err := c.withRefusal(err); !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("the request fails with %v, want the alert", err)
	}
}

func TestRetryAfter_ReadsSecondsAndDates(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	date := func(after time.Duration) string { return now.Add(after).UTC().Format(http.TimeFormat) }
	for name, test := range map[string]struct {
		value, date string
		want        time.Duration
	}{
		"absent":                       {"", "", 0},
		"seconds":                      {"7", "", 7 * time.Second},
		"zero":                         {"0", "", 0},
		"negative":                     {"-7", "", 0},
		"a fraction":                   {"1.5", "", 0},
		"a word":                       {"soon", "", 0},
		"too long":                     {"86400", "", MaxRetryAfter},
		"more than nanoseconds hold":   {"9223372037", "", MaxRetryAfter},
		"more than any number holds":   {"99999999999999999999", "", MaxRetryAfter},
		"a date":                       {date(time.Minute), date(0), time.Minute},
		"of another clock":             {date(time.Hour + time.Minute), date(time.Hour), time.Minute},
		"in the past":                  {date(-time.Minute), date(0), 0},
		"far ahead":                    {date(9000 * time.Hour), date(0), MaxRetryAfter},
		"of RFC 850":                   {now.Add(time.Minute).UTC().Format("Monday, 02-Jan-06 15:04:05 GMT"), date(0), time.Minute},
		"of asctime":                   {now.Add(time.Minute).UTC().Format(time.ANSIC), date(0), time.Minute},
		"beside a Date that is broken": {date(time.Hour), "yesterday", MaxRetryAfter},
	} {
		header := http.Header{}
		header.Set("Retry-After", test.value)
		header.Set("Date", test.date)
		if got := retryAfter(header); got != test.want {
			t.Errorf("%s: Retry-After: %s = %s, want %s", name, test.value, got, test.want)
		}
	}
}

// A panic over a line of a child, or an event of HTTP+SSE, ends the call that it is about, at once, and no other.
func TestMux_PanicEndsTheCallThatItIsAbout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		x := newMux(slog.New(slog.DiscardHandler))
		x.setRevision(wire.Rev20250326)
		x.receive = func(*wire.Message) { panic("out of range") }
		failures := [...]error{1: errStreamEnded, 2: errStreamEnded}
		for id := 1; id < len(failures); id++ {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(id)*time.Minute)
				defer cancel()
				r := &request{id: int64(id), method: wire.PromptsGet}
				failures[id] = x.await(ctx, r, func(context.Context, []byte) error { return nil })
			}()
		}
		synctest.Wait()
		if err := x.dispatch([]byte(`[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":1,"result":{}}]`)); err == nil {
			t.Error("nobody hears of a panic")
		}
		synctest.Wait()
		if err := failures[1]; !Answered(err) || err == nil || err.Error() != errPanic.Error() {
			t.Errorf("the call that it is about fails with %v, want %v", err, errPanic)
		}
		if err := x.dispatch([]byte(`{"jsonrpc":"2.0","id":2,"result":{}}`)); err != nil {
			t.Errorf("the next response: %v", err)
		}
		synctest.Wait()
		if failures[2] != nil {
			t.Errorf("another call fails with %v", failures[2])
		}
	})
}
