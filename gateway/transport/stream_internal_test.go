package transport

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

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
	_, j := newConnection(transport, caller).begin(t.Context(), request)
	if got, want := string(j.run(&j.scope).JSON), `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"Internal error"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	s := &sseSession{conn: newConnection(transport, caller), posts: make(chan incoming), over: make(chan struct{})}
	go s.receivePosts(t.Context())
	s.enqueue(t.Context(), incoming{}) // without a publisher, it cannot be received
	<-s.over
}

func TestFollow_KeepsQuietStreamsAlive(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		written := httptest.NewRecorder()
		h := &Transport{closing: make(chan struct{})}
		out := openStream(written)
		ctx, cancel := context.WithTimeout(t.Context(), 3*keepAlive+time.Second)
		defer cancel()
		caller := &snapshot.Caller{Generation: &snapshot.Generation{}}
		if h.follow(ctx, caller, &publish.Subscription{}, func() { t.Error("a change was sent") }, outlet{keepAlive: out.comment}) {
			t.Error("the stream ended although its client was still there")
		}
		upstreamtest.Equal(t, strings.Repeat(": keep-alive\n\n", 3), written.Body.String(), "within %s it sent", 3*keepAlive)
	})
}
