package client

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Thousands of servers may be down at once behind a proxy that answers in their place. No connection to it is kept.
func TestDialer_KeepsNoConnectionForAServerThatIsDown(t *testing.T) {
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
	d := NewDialer(config.Upstream{
		Name: "up", URL: proxy.URL, Transport: config.StreamableHTTP, Concurrency: 1, Timeout: time.Second, MaxMessage: 1 << 20,
	}, Options{})
	if _, err := d.Connect(t.Context(), SessionOptions{}); err == nil {
		t.Fatal("a server answered that is down")
	}
	for deadline := time.Now().Add(time.Minute); open.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections to the proxy are kept", open.Load())
		}
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
		if err := failures[1]; !OutcomeOf(err).Answered || err == nil || err.Error() != errPanic.Error() {
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
