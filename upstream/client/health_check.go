package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

// idleTime measures for how long nothing has come from a server. Its clock does not go backwards.
type idleTime struct {
	began time.Time
	// ended is when something came last, in nanoseconds since began.
	ended atomic.Int64
}

func newIdleTime() *idleTime { return &idleTime{began: time.Now()} }

// reset notes that something has come.
func (i *idleTime) reset() { i.ended.Store(int64(time.Since(i.began))) }

func (i *idleTime) length() time.Duration { return time.Since(i.began) - time.Duration(i.ended.Load()) }

// streamIdle is the idle time of a stream of its own. Many servers say something on it every few
// seconds, so that it is kept alive.
type streamIdle struct {
	own *idleTime
	// session is that of the whole session, which ends as well.
	session *idleTime
	// keepAlives counts how often something came while that was neither at once nor longer than
	// maxKeepAlive after the last time.
	keepAlives atomic.Int32
	// doubted is set while a request since got no answer on another connection that had worked:
	// perhaps all of them broke.
	doubted atomic.Bool
}

const (
	leastKeepAlive = time.Second
	maxKeepAlive   = 30 * time.Second
	// steadyKeepAlives is after how many of them an idle time of maxKeepAlive means that the stream
	// is dead.
	steadyKeepAlives = 3
)

// begin notes that a stream begins.
func (i *streamIdle) begin() {
	i.keepAlives.Store(0)
	i.doubted.Store(false)
	i.own.reset()
}

// reset notes that something has come on the stream.
func (i *streamIdle) reset() {
	switch length := i.own.length(); {
	case length > maxKeepAlive:
		i.keepAlives.Store(0)
	case length > leastKeepAlive:
		i.keepAlives.Add(1)
	}
	i.doubted.Store(false)
	i.own.reset()
	i.session.reset()
}

// left returns how much longer the stream may be idle: negative if it is dead, and ok is false
// where that says nothing.
func (i *streamIdle) left() (left time.Duration, ok bool) {
	return maxKeepAlive - i.own.length(), i.keepAlives.Load() >= steadyKeepAlives || i.doubted.Load()
}

// Idle returns for how long nothing has come from the server in this session: no response, and
// nothing on a stream, be it a comment that keeps the stream alive.
func (s *Session) Idle() time.Duration { return s.transport.idle().length() }

// CheckStream makes [Session.Watch] return if its stream seems dead, which requests on other
// connections do not show: it has been idle for 30 seconds although the server had kept it alive,
// or while another connection seems to have broken without a word. It returns when to check again;
// 0 if the stream's idle time says nothing.
func (s *Session) CheckStream() (again time.Duration) {
	over, ok := s.transport.(*httpTransport)
	if !ok { // what comes on the one stream is no other than that of requests
		return 0
	}
	left, ok := over.changes.left()
	switch {
	case !ok:
		return 0
	case left > 0:
		return left
	}
	// Or the next check would find the same silence before there is another stream.
	over.changes.begin()
	s.hangUp()
	return 0
}

// CheckHealth asks the server whether it is there, and returns nil as soon as it answers. Otherwise
// it returns why the session is of no more use, when ctx ends at the latest.
//
// It asks by [Session.Ping]. If that is not answered within half of the timeout, it also asks for
// the first page of the list, because there are servers that do not know a ping, and over HTTP on a
// new connection: if only this one is answered, the others may have broken without a word, and with
// them the stream of changes. [Session.Watch] then returns [ErrStreamDead], so that what has
// changed since is found when it is called again. A ping that fails gets the same second opinion,
// unless a call has failed as well, which made the session suspect.
func (s *Session) CheckHealth(ctx context.Context, timeout time.Duration, suspect bool) error {
	var asking sync.WaitGroup
	// Deferred calls run in reverse: the questions are cancelled first, and then waited for.
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ask := func(request func(context.Context) error) <-chan error {
		answered := make(chan error, 1)
		asking.Go(func() { answered <- Guard(s.dialer.logger, func() error { return request(ctx) }) })
		return answered
	}
	pinged := ask(func(ctx context.Context) error {
		_, err := ping(ctx, s)
		return err
	})
	wait := timeout / 2
	if s.ignoresPing.Load() {
		wait = 0
	}
	var refusal error
	select {
	case refusal = <-pinged:
		s.ignoresPing.Store(false)
		if refusal == nil || suspect || (errors.Is(refusal, ErrSessionLost) && !mayNotKnowPing(s.Revision, refusal)) {
			return refusal
		}
		// It has been answered: a nil channel is never ready.
		pinged = nil
	case <-time.After(wait):
		// The silence of a server that ignores pings says nothing about connections.
		if wait > 0 {
			s.dialer.http.renew()
		}
	case <-ctx.Done():
		return notAnswered(ctx)
	}
	listed, failure := ask(func(ctx context.Context) error { return askForList(ctx, s) }), refusal
	for pinged != nil || listed != nil {
		select {
		case err := <-pinged:
			pinged = nil
			if err == nil || errors.Is(err, ErrSessionLost) {
				return err
			}
			failure = err
		case err := <-listed:
			listed = nil
			// The first time only: a server that ignores pings would lose its stream with each
			// check.
			if err == nil && refusal == nil && !s.ignoresPing.Swap(true) {
				s.hangUp()
			}
			if err == nil || errors.Is(err, ErrSessionLost) {
				return err
			}
			failure = cmp.Or(failure, err)
		case <-ctx.Done():
			return notAnswered(ctx)
		}
	}
	return failure
}

func notAnswered(ctx context.Context) error {
	return fmt.Errorf("no answer to a health check: %w", context.Cause(ctx))
}

// mayNotKnowPing reports whether the answer to a ping may be that of a legacy server which does not
// know the method.
func mayNotKnowPing(revision string, err error) bool {
	status, ok := errors.AsType[*StatusError](err)
	return ok && status.Status == http.StatusBadRequest && !wire.Modern(revision)
}

// askForList requests the first page of the list. As with Ping, any answer will do.
func askForList(ctx context.Context, s *Session) error {
	_, err := s.Call(ctx, &Request{Method: wire.PromptsList}, nil)
	if status, ok := errors.AsType[*StatusError](err); ok && status.Status == http.StatusBadRequest {
		return fmt.Errorf("%s: %w: %w", wire.PromptsList, ErrSessionLost, err)
	}
	nonsense, ok := errors.AsType[*ProtocolError](err)
	if errors.Is(err, ErrSessionLost) || (Suspicious(err) && (!ok || nonsense.foreign)) {
		return fmt.Errorf("%s: %w", wire.PromptsList, err)
	}
	return nil
}

// hangUp ends the present [Session.Watch], if it has a connection of its own.
func (s *Session) hangUp() {
	if !s.TiesMessages() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endWatch != nil {
		s.endWatch(ErrStreamDead)
	}
}

// ping is [Session.Ping] in the time of ctx, and returns the result, which is that of
// server/discover in the modern era. It has none if the answer is an error.
func ping(ctx context.Context, s *Session) (Result, error) {
	method := wire.Ping
	if wire.Modern(s.Revision) {
		method = wire.Discover
	}
	// The modern era has no ping, and every modern server must implement server/discover.
	result, err := s.Call(ctx, &Request{Method: method}, nil)
	switch status, ok := errors.AsType[*StatusError](err); {
	case isOtherEra(ctx, s, result, err):
		return Result{}, errors.Join(fmt.Errorf("%s: %w: the server has changed eras since the "+
			"session began", method, ErrSessionLost), err)
	// Many servers answer so when they do not know the session.
	case ok && status.Status == http.StatusBadRequest,
		ok && wire.Modern(s.Revision) && MayRefuseEra(err): // as in negotiation, this is no modern server
		return Result{}, fmt.Errorf("%s: %w: %w", method, ErrSessionLost, err)
	case errors.Is(err, ErrSessionLost), Suspicious(err):
		return Result{}, fmt.Errorf("%s: %w", method, err)
	}
	return result, nil
}

// isOtherEra reports whether the answer to a ping, or to server/discover in its place, is one that
// a server of the session's era does not give. The server behind an address may have been rolled
// back, or forward.
func isOtherEra(ctx context.Context, s *Session, result Result, err error) bool {
	refusal, refused := errors.AsType[*wire.Error](err)
	_, unnamed := errors.AsType[*StatusError](err) // Ping judges these by their status
	switch {
	case unnamed, err != nil && !refused:
		return false
	// An internal error may be temporary, and says nothing about the era.
	case wire.Modern(s.Revision) && refused:
		return refusal.Code != wire.InternalError && errors.Is(modernError(refusal), errLegacy)
	case wire.Modern(s.Revision):
		return newestModern(wire.Members(result.JSON).Get("supportedVersions")) == ""
	case !refused:
		return false
	}
	switch refusal.Code {
	case wire.UnsupportedProtocolVersion, wire.HeaderMismatch:
		return true
	case wire.MethodNotFound, wire.InvalidRequest: // of a modern server, or of a legacy one without ping
		return s.dialer.negotiatesEra() && isModernNow(ctx, s)
	}
	return false
}

// isModernNow reports whether the server of a legacy session answers like a modern one.
func isModernNow(ctx context.Context, s *Session) bool {
	_, err := s.negotiator().discover(ctx)
	return err == nil
}
