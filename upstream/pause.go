package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/promptweir/promptweir/upstream/client"
)

// serverPause is a time in which a server wants no requests, as it said by a Retry-After (RFC 9110, section 10.2.3).
type serverPause struct {
	until  time.Time // by the monotonic clock
	reason Reason
	err    error
}

// rest returns how much of the pause is left. That of the nil pause is 0.
func (p *serverPause) rest() time.Duration {
	if p == nil {
		return 0
	}
	return max(time.Until(p.until), 0)
}

// refusal is the error of a call that is not made during the pause.
func (p *serverPause) refusal(name string) error { return unavailable(name, p.reason, p.rest(), p.err) }

// heed keeps the Retry-After of HTTP 429 and 503 in a response to any request: calls, lists, streams and connects wait.
func (e *endpoint) heed(err error) {
	if err == nil {
		return
	}
	status, ok := errors.AsType[*client.StatusError](err)
	if !ok || status.RetryAfter <= 0 || (status.Status != http.StatusTooManyRequests && status.Status != http.StatusServiceUnavailable) {
		return
	}
	next := &serverPause{until: time.Now().Add(status.RetryAfter), reason: reasonOf(err), err: &pausedError{err}}
	if e.pausedUntil.Swap(next).rest() == 0 {
		e.callLogger.Warn("server asks for a pause", slog.String("reason", string(next.reason)),
			slog.Duration("retry_after", status.RetryAfter), slog.Any("error", err))
	}
}

// paused returns the pause that the server has asked for, or nil.
func (e *endpoint) paused() *serverPause {
	p := e.pausedUntil.Load()
	if p.rest() == 0 {
		return nil
	}
	return p
}

// awaitPause waits until the server may be sent requests, or ctx ends.
func (e *endpoint) awaitPause(ctx context.Context) error {
	for {
		rest := e.pausedUntil.Load().rest()
		if rest == 0 {
			return nil
		}
		if err := sleep(ctx, rest); err != nil {
			return err
		}
	}
}

// allPaused reports whether all of some endpoints have asked for a pause.
func allPaused(endpoints []*endpoint) bool {
	return !slices.ContainsFunc(endpoints, func(e *endpoint) bool { return e.paused() == nil })
}

// refusePaused returns the error of a call that no endpoint may have, because all have asked for a pause: the one that ends first
// counts. It is nil if any may have it.
func (c *Connector) refusePaused(request *Request) error {
	var first *serverPause
	for i, e := range c.endpoints {
		if !request.Endpoints.Has(i) {
			continue
		}
		p := e.paused()
		if p == nil {
			return nil
		}
		if first == nil || p.until.Before(first.until) {
			first = p
		}
	}
	if first == nil {
		return nil
	}
	err := first.refusal(c.upstream.Name)
	for i, e := range c.endpoints {
		if request.Endpoints.Has(i) {
			e.noteNotSent(request.Method, err)
		}
	}
	return err
}
