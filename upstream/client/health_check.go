package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

// Idle returns for how long nothing has come from the server in this session: no response, and
// nothing on a stream, be it a comment that keeps the stream alive. It is 0 while a call is in flight.
func (s *Session) Idle() time.Duration {
	if s.inFlight.Load() > 0 {
		return 0
	}
	return s.transport.idle().length()
}

// CheckHealth pings the server, within the upstream's timeout. It returns an error if there is no
// answer, or if the answer shows that the session is lost. Another error as the answer proves nothing:
// many servers do not know a ping.
func (s *Session) CheckHealth(ctx context.Context) error {
	err := s.Ping(ctx)
	_, isNonsense := errors.AsType[*ProtocolError](err)
	status, isRefused := errors.AsType[*StatusError](err)
	if isNonsense || isRefused && (!errors.Is(err, ErrSessionLost) || status.Status == http.StatusBadRequest && !wire.Modern(s.Revision)) {
		return nil
	}
	return err
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
