package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/cancel"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
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
		d := NewDialers(config.Upstream{
			Name: "up", URLs: []string{url}, Transport: config.StreamableHTTP, Concurrency: 1, Timeout: time.Second, MaxMessage: 1 << 20,
		}, Options{})[0]
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

// Package context would start a goroutine for each request, and its child would end some time later.
func TestTraceConnection_EndsItsChildrenBeforeEndReturns(t *testing.T) {
	t.Parallel()
	for name, trace := range map[string]func(context.Context) *connection{"request": traceConnection, "handshake": traceHandshake} {
		call := new(cancel.Context)
		call.Begin(t.Context())
		child, stop := context.WithCancel(trace(call))
		call.End(context.DeadlineExceeded)
		if err := child.Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want %v", name, err, context.DeadlineExceeded)
		}
		stop()
	}
}
