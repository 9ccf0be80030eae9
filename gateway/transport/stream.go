package transport

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/wire"
)

// keepAlive is how often a comment is sent on a quiet stream, so that no intermediary times it out.
const keepAlive = 15 * time.Second

// minPause is the least time between two changes that one stream announces. Busy servers would
// otherwise have each client list again for each of their changes.
const minPause = 500 * time.Millisecond

// outlet is where messages to one client go. Only one goroutine uses it.
type outlet struct {
	// send sends a message.
	send func(message []byte)
	// keepAlive is called from time to time; nil where the connection needs nothing.
	keepAlive func()
	// broken reports whether sending has failed; nil where the connection ends the context instead.
	broken func() bool
	// ending is closed when the connection wants to end its streams; nil where it does not.
	ending <-chan struct{}
	// variant is that of the endpoint.
	variant config.Variant
}

// ticks returns the ticks at which to call keepAlive.
func (o outlet) ticks() (ticks <-chan time.Time, stop func()) {
	if o.keepAlive == nil {
		return nil, func() {}
	}
	ticker := time.NewTicker(keepAlive)
	return ticker.C, ticker.Stop
}

// follow calls changed whenever the view of a subscription has changed, once for all changes within
// minPause, until the client goes, ctx ends, the gateway drains, or a reload turns the variant off
// or does not accept the caller any more. It reports whether it was the gateway that ended it.
func (t *Transport) follow(
	ctx context.Context, caller *snapshot.Caller, sub *snapshot.Subscription, changed func(), out outlet,
) (ended bool) {
	ticks, stop := out.ticks()
	defer stop()
	changes, pause := sub.Changed(), (<-chan time.Time)(nil)
	for out.broken == nil || !out.broken() {
		select {
		case <-changes: // which keeps one change for later
			changed()
			if published := sub.TakeChange(); !published.IsZero() {
				t.notified.Record(ctx, time.Since(published).Seconds())
			}
			// A nil channel is never ready: changes that come meanwhile wait in the subscription as
			// one.
			changes, pause = nil, time.After(minPause)
		case <-pause:
			changes, pause = sub.Changed(), nil
		case <-ticks:
			out.keepAlive()
		case <-caller.Generation.Replaced():
			// Retain keeps a caller whose issuer cannot be asked just now: nobody has refused it.
			if sub.Retain(ctx, caller) != nil || !hasVariant(caller.Generation.Config, out.variant) {
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

// countStream counts a stream for its principal, unless that has as many as it may. If ok, release
// must be called when the stream is over.
func (t *Transport) countStream(caller *snapshot.Caller, multiplexed bool) (release func(), ok bool) {
	most := 0
	if limit := caller.Generation.Config.Gateway.Limit; limit != nil {
		most = limit.Streams
	}
	return t.ledger.OpenStream(caller.Principal.Key(), most, multiplexed)
}

// countStream counts a stream that is about to be opened, or answers that its caller has too many.
// If ok, release must be called when the stream is over.
func (x *exchange) countStream(caller *snapshot.Caller, id jsontext.Value) (release func(), ok bool) {
	release, ok = x.t.countStream(caller, x.r.ProtoMajor > 1)
	if !ok {
		x.w.Header().Set("Retry-After", "1")
		x.refuse(http.StatusTooManyRequests, id, requests.TooManyStreams())
		return nil, false
	}
	// Now: an idle stream would count for as long as it is open for what only its beginning took.
	x.release()
	return release, true
}

// listener is a subscriptions/listen request (2026-07-28).
type listener struct {
	caller snapshot.Caller
	sub    *snapshot.Subscription
	id     jsontext.Value
	// wanted says that the client wants to be told of changes of the list of prompts.
	wanted bool
}

// readListen reports whether a subscriptions/listen request asks for changes of the list of
// prompts. The request's span is over when its stream begins.
func (t *Transport) readListen(ctx context.Context, request *requests.Request) (wanted bool, refusal *wire.Error) {
	if request.Params.Get("notifications").Kind() != '{' {
		refusal = wire.NewError(wire.InvalidParams, "Invalid params: notifications must be an object")
		t.requests.Record(ctx, request, refusal)
		return false, refusal
	}
	t.requests.Record(ctx, request, nil)
	return request.Params.Object("notifications").Get("promptsListChanged").Kind() == 't', nil
}

// listen serves a subscription until it ends: the acknowledgment, then each change. The closing
// result is for the caller to send, nil unless the gateway or the credential's expiry ended the
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
