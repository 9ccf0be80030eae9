package client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

// idleTime measures the time since the server's last byte, with a monotonic clock.
type idleTime struct {
	began time.Time
	// lastByte is the time of the last byte, in nanoseconds since began.
	lastByte atomic.Int64
}

func newIdleTime() *idleTime { return &idleTime{began: time.Now()} }

// reset records that a byte has arrived.
func (i *idleTime) reset() { i.lastByte.Store(int64(time.Since(i.began))) }

func (i *idleTime) length() time.Duration {
	return time.Since(i.began) - time.Duration(i.lastByte.Load())
}

// Idle returns the time since the server's last byte in this session, in a response or on a stream.
// Comments that keep a stream alive count. It is 0 while a call is in flight.
func (s *Session) Idle() time.Duration {
	if s.inFlight.Load() > 0 {
		return 0
	}
	return s.transport.idle().length()
}

// CheckHealth pings an idle server, within the upstream's timeout. It returns an error if there is no answer, or if the
// session may be lost, see [Outcome]. It ignores other errors in an answer: many servers do not know ping.
func (s *Session) CheckHealth(ctx context.Context) error {
	_, err := ping(ctx, s)
	_, isNonsense := errors.AsType[*ProtocolError](err)
	_, isRefused := errors.AsType[*StatusError](err)
	answer, isAnswer := errors.AsType[*wire.Error](err)
	isUnknown := isAnswer && answer.Code == wire.MethodNotFound && !wire.Modern(s.Revision)
	if isNonsense || isUnknown || isRefused && !OutcomeOf(err).MayBeLost {
		return nil
	}
	return err
}

// Prove requests the first page of the list, which a server returns only in a session that it knows.
func (s *Session) Prove(ctx context.Context) error {
	method := wire.PromptsList
	if !s.Declared.Prompts || s.server.Skills == config.SkillsOnly {
		method = wire.SkillsList
	}
	_, err := requestPage(ctx, s, method, nil)
	return err
}

// ping sends a ping to a legacy server and server/discover to a modern server, within the upstream's timeout.
func ping(ctx context.Context, s *Session) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, s.server.Timeout)
	defer cancel()
	method := wire.Ping
	if wire.Modern(s.Revision) {
		method = wire.Discover
	}
	// The modern era has no ping. Every modern server implements server/discover.
	result, err := s.Call(ctx, &Request{Method: method}, nil)
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", method, err)
	}
	return result, nil
}
