package transport

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/wire"
)

// keepAlive is the interval of comments on an event stream. Without them, proxies close a quiet stream.
const keepAlive = 15 * time.Second

// minPause is the minimum time between two notifications on one stream: each notification makes the
// client list its prompts again.
const minPause = 500 * time.Millisecond

// outlet sends messages to one client. Only one goroutine may use it.
type outlet struct {
	send func(message []byte)
	// keepAlive is called at intervals of keepAlive. It is nil if the connection needs no such calls.
	keepAlive func()
	// broken reports whether sending has failed. It is nil if a failure ends the context.
	broken func() bool
	// ending is closed to end the streams of a connection. It is nil over Streamable HTTP.
	ending <-chan struct{}
	// variant is the endpoint's variant.
	variant config.Variant
}

// ticks returns a channel that ticks when keepAlive must be called, or nil if keepAlive is nil.
func (o outlet) ticks() (ticks <-chan time.Time, stop func()) {
	if o.keepAlive == nil {
		return nil, func() {}
	}
	ticker := time.NewTicker(keepAlive)
	return ticker.C, ticker.Stop
}

// follow calls changed after changes of a subscription's view, at most once per minPause. It returns
// true if the gateway ends the stream: it drains, or a reload turns off the variant or refuses the
// caller. It returns false if ctx ends or sending fails.
func (t *Transport) follow(
	ctx context.Context, caller *snapshot.Caller, sub *publish.Subscription, changed func(), out outlet,
) (ended bool) {
	ticks, stop := out.ticks()
	defer stop()
	changes, pause := sub.Changed(), (<-chan time.Time)(nil)
	for out.broken == nil || !out.broken() {
		select {
		case <-changes:
			changed()
			if published := sub.TakeChange(); !published.IsZero() {
				t.notified.Record(ctx, time.Since(published).Seconds())
			}
			// A nil channel is never ready. During the pause, the subscription combines all changes into
			// one.
			changes, pause = nil, time.After(minPause)
		case <-pause:
			changes, pause = sub.Changed(), nil
		case <-ticks:
			out.keepAlive()
		case <-caller.Generation.Replaced():
			// Reauthenticate returns no error if an issuer's keys cannot be fetched: the stream continues.
			if sub.Reauthenticate(ctx, caller) != nil || !hasVariant(caller.Generation.Config, out.variant) {
				return true
			}
		case <-t.closing:
			return true
		case <-out.ending:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return false
}

// countStream counts a new stream of a principal. Call release at the end of the stream. ok is false
// if the principal already has its maximum of streams.
func (t *Transport) countStream(caller *snapshot.Caller, multiplexed bool) (release func(), ok bool) {
	most := 0
	if limit := caller.Generation.Config.Gateway.Limit; limit != nil {
		most = limit.Streams
	}
	return t.ledger.OpenStream(caller.Principal.Key(), most, multiplexed)
}

// countStream counts a new stream and releases everything else that the exchange holds. Call release
// at the end of the stream. If the caller already has its maximum of streams, countStream responds
// with 429 and returns false.
func (x *exchange) countStream(caller *snapshot.Caller, id jsontext.Value) (release func(), ok bool) {
	release, ok = x.t.countStream(caller, x.r.ProtoMajor > 1)
	if !ok {
		x.w.Header().Set("Retry-After", "1")
		x.refuse(http.StatusTooManyRequests, id, requests.TooManyStreams())
		return nil, false
	}
	x.release() // an idle stream does not need the memory that its request has reserved
	return release, true
}

// listener is a subscriptions/listen request (2026-07-28).
type listener struct {
	caller snapshot.Caller
	sub    *publish.Subscription
	id     jsontext.Value
	// listChanged is true if the client subscribes to changes of the list of prompts.
	listChanged bool
}

// readListen reports whether a subscriptions/listen request subscribes to changes of the list of
// prompts. It records the request now: the stream is not part of the recorded duration.
func (t *Transport) readListen(ctx context.Context, request *requests.Request) (listChanged bool, refusal *wire.Error) {
	if request.Params.Get("notifications").Kind() != '{' {
		refusal = wire.NewError(wire.InvalidParams, "Invalid params: notifications must be an object")
		t.requests.Record(ctx, request, refusal)
		return false, refusal
	}
	t.requests.Record(ctx, request, nil)
	return request.Params.Object("notifications").Get("promptsListChanged").Kind() == 't', nil
}

// listen sends the acknowledgment of a subscription, and then notifications until it ends. It returns
// the closing result, which the caller must send, or nil if the client has left.
func (t *Transport) listen(ctx context.Context, l *listener, out outlet) (closing []byte) {
	granted := wire.Object{}.WithTrue("promptsListChanged", l.listChanged)
	out.send(l.notification(wire.Acknowledged, wire.Object{}.With("notifications", granted.JSON())))
	changed := l.notification(wire.PromptsListChanged, nil)
	ended := t.follow(ctx, &l.caller, l.sub, func() {
		if l.listChanged {
			out.send(changed)
		}
	}, out)
	if ended || hasExpired(ctx) {
		return l.closingResult(t.requests.ServerInfo())
	}
	return nil
}

// notification returns a notification with the subscription's id.
func (l *listener) notification(method string, params wire.Object) []byte {
	meta := wire.Object{}.With(wire.MetaSubscriptionID, l.id)
	return wire.AppendNotification(nil, method, params.With("_meta", meta.JSON()).JSON())
}

// closingResult returns the response that ends the subscription.
func (l *listener) closingResult(info jsontext.Value) []byte {
	meta := wire.Object{}.With(wire.MetaSubscriptionID, l.id).With(wire.MetaServerInfo, info)
	result := wire.Object{}.With("resultType", wire.Quote(wire.ResultComplete)).With("_meta", meta.JSON())
	return wire.AppendResult(nil, l.id, result.JSON())
}
