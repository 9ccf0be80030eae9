package transport

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A stream whose client does not read outlives the gateway by closeTimeout, and no other does.
func TestHijackedWait_CutsOffClientsThatDoNotRead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := &Transport{logger: slog.New(slog.DiscardHandler)}
		conn, client := net.Pipe()
		defer client.Close()
		if !h.hijacked.add(conn) {
			t.Fatal("a stream is refused before wait")
		}
		go h.serveHijacked(t.Context(), conn, &eventStream{w: conn, control: chunked{conn}}, func() {}, func(_ context.Context, out *eventStream) {
			out.comment() // nobody reads it
		})
		began := time.Now()
		h.hijacked.wait()
		upstreamtest.Equal(t, closeTimeout, time.Since(began), "wait returned after")
		if late, _ := net.Pipe(); h.hijacked.add(late) {
			t.Error("a stream is accepted after wait")
		}
	})
}

func TestServeHijacked_PanicEndsOneStream(t *testing.T) {
	var log bytes.Buffer
	h := &Transport{logger: slog.New(slog.NewTextHandler(&log, nil))}
	conn, client := net.Pipe()
	h.hijacked.add(conn)
	go h.serveHijacked(t.Context(), conn, &eventStream{w: conn, control: chunked{conn}}, func() {}, func(context.Context, *eventStream) {
		panic("out of range")
	})
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("the stream goes on after a panic")
	}
	h.hijacked.wait()
	if !strings.Contains(log.String(), "out of range") {
		t.Errorf("the panic is not in the log: %s", log.String())
	}
}

// A stream that is refused because the gateway stops leaves nothing behind.
func TestServeStream_ClosesItsSubscriptionWhereTheGatewayStops(t *testing.T) {
	publisher, err := snapshot.NewPublisher(&config.Config{}, snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	transport, released := &Transport{publisher: publisher}, make(chan struct{})
	transport.hijacked.wait()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{t: transport, w: w, r: r}
		release := func() { close(released) }
		x.serveStream(release, publisher.Subscribe(policy.Principal{}), time.Time{}, func(context.Context, *eventStream) {
			t.Error("the stream is served")
		})
	}))
	defer server.Close()
	response, err := server.Client().Get(server.URL) //nolint:noctx // a test
	if err == nil {
		_ = response.Body.Close()
	}
	<-released
	upstreamtest.Equal(t, 0, publisher.Subscriptions(), "subscriptions left")
}

// A panic on a goroutine of a connection ends the request or the session that it is for.
func TestConnection_PanicEndsOneRequestOrSession(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	transport := &Transport{logger: logger, requests: requests.New(nil, requests.Options{Logger: logger}), closing: make(chan struct{})}
	caller := snapshot.Caller{Generation: &snapshot.Generation{}} // without a configuration, nothing can be counted
	request, refusal := requests.Read([]byte(`{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{}}}`))
	if refusal != nil {
		t.Fatal(refusal)
	}
	request.Revision, request.Caller = wire.Rev20260728, caller
	_, run := newConnection(transport, caller).begin(t.Context(), request)
	if got, want := string(run().JSON), `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"Internal error"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	s := &sseSession{conn: newConnection(transport, caller), posts: make(chan incoming), over: make(chan struct{})}
	go s.receivePosts(t.Context())
	s.enqueue(t.Context(), incoming{}) // without a publisher, it cannot be received
	<-s.over
}

func TestFollow_KeepsQuietStreamsAlive(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var written bytes.Buffer
		conn, _ := net.Pipe()
		defer conn.Close()
		h := &Transport{closing: make(chan struct{})}
		out := &eventStream{w: &written, control: chunked{conn}}
		ctx, cancel := context.WithTimeout(t.Context(), 3*keepAlive+time.Second)
		defer cancel()
		caller := &snapshot.Caller{Generation: &snapshot.Generation{}}
		if h.follow(ctx, caller, &snapshot.Subscription{}, func() { t.Error("a change was sent") }, outlet{keepAlive: out.comment}) {
			t.Error("the stream ended although its client was still there")
		}
		upstreamtest.Equal(t, strings.Repeat(": keep-alive\n\n", 3), written.String(), "within %s it sent", 3*keepAlive)
	})
}
