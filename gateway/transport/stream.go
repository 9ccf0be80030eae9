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

// keepAlive is the interval of comments on a quiet stream, so that no intermediary closes it.
const keepAlive = 15 * time.Second

// minPause is the minimum time between two notifications on one stream. Otherwise busy servers
// would make each client list again after each change.
const minPause = 500 * time.Millisecond

// outlet sends messages to one client. Only one goroutine uses it.
type outlet struct {
	// send sends a message.
	send func(message []byte)
	// keepAlive is called from time to time; nil if the connection needs none.
	keepAlive func()
	// broken reports whether sending has failed; nil if the connection ends the context instead.
	broken func() bool
	// ending is closed when the connection ends its streams; nil if it never does.
	ending <-chan struct{}
	// variant is the endpoint's variant.
	variant config.Variant
}

// ticks returns a channel for the calls of keepAlive.
func (o outlet) ticks() (ticks <-chan time.Time, stop func()) {
	if o.keepAlive == nil {
		return nil, func() {}
	}
	ticker := time.NewTicker(keepAlive)
	return ticker.C, ticker.Stop
}

// follow calls changed after each change of a subscription's view, once for all changes within
// minPause. It ends when the client leaves, ctx ends, the gateway drains, or a reload turns off the
// variant or refuses the caller. It reports whether the gateway ended it.
func (t *Transport) follow(
	ctx context.Context, caller *snapshot.Caller, sub *publish.Subscription, changed func(), out outlet,
) (ended bool) {
	ticks, stop := out.ticks()
	defer stop()
	changes, pause := sub.Changed(), (<-chan time.Time)(nil)
	for out.broken == nil || !out.broken() {
		select {
		case <-changes: // the channel keeps one change for later
			changed()
			if published := sub.TakeChange(); !published.IsZero() {
				t.notified.Record(ctx, time.Since(published).Seconds())
			}
			// A nil channel is never ready: changes during the pause become one in the
			// subscription.
			changes, pause = nil, time.After(minPause)
		case <-pause:
			changes, pause = sub.Changed(), nil
		case <-ticks:
			out.keepAlive()
		case <-caller.Generation.Replaced():
			// Reauthenticate keeps a caller if the issuer cannot be reached, because nothing has
			// refused it.
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

// countStream counts a stream of its principal. ok is false if the principal has its maximum of
// streams. If ok, call release at the end of the stream.
func (t *Transport) countStream(caller *snapshot.Caller, multiplexed bool) (release func(), ok bool) {
	most := 0
	if limit := caller.Generation.Config.Gateway.Limit; limit != nil {
		most = limit.Streams
	}
	return t.ledger.OpenStream(caller.Principal.Key(), most, multiplexed)
}

// countStream counts a new stream. If its caller has too many, it responds with an error. If ok,
// call release at the end of the stream.
func (x *exchange) countStream(caller *snapshot.Caller, id jsontext.Value) (release func(), ok bool) {
	release, ok = x.t.countStream(caller, x.r.ProtoMajor > 1)
	if !ok {
		x.w.Header().Set("Retry-After", "1")
		x.refuse(http.StatusTooManyRequests, id, requests.TooManyStreams())
		return nil, false
	}
	// Release now: only the start of a stream needs this memory, not the idle stream.
	x.release()
	return release, true
}

// listener is a subscriptions/listen request (2026-07-28).
type listener struct {
	caller snapshot.Caller
	sub    *publish.Subscription
	id     jsontext.Value
	// wanted is true if the client subscribes to changes of the list of prompts.
	wanted bool
}

// readListen reports whether a subscriptions/listen request subscribes to changes of the list of
// prompts. The request's span ends when its stream begins.
func (t *Transport) readListen(ctx context.Context, request *requests.Request) (wanted bool, refusal *wire.Error) {
	if request.Params.Get("notifications").Kind() != '{' {
		refusal = wire.NewError(wire.InvalidParams, "Invalid params: notifications must be an object")
		t.requests.Record(ctx, request, refusal)
		return false, refusal
	}
	t.requests.Record(ctx, request, nil)
	return request.Params.Object("notifications").Get("promptsListChanged").Kind() == 't', nil
}

// listen serves a subscription until it ends: the acknowledgment, then each change. The caller
// sends the closing result. It is nil unless the gateway or the credential's expiry ended the
// subscription.
func (t *Transport) listen(ctx context.Context, l *listener, out outlet) (closing []byte) {
	granted := wire.Object{}
	if l.wanted {
		granted = granted.With("promptsListChanged", jsontext.Value("true"))
	}
	out.send(l.notification(wire.Acknowledged, wire.Object{}.With("notifications", granted.JSON())))
	changed := l.notification(wire.PromptsListChanged, nil)
	ended := t.follow(ctx, &l.caller, l.sub, func() {
		if l.wanted {
			out.send(changed)
		}
	}, out)
	if ended || hasExpired(ctx) {
		return l.closingResult(t.requests.ServerInfo())
	}
	return nil
}

// notification returns a notification that belongs to the subscription.
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
