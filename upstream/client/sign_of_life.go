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

// silence measures for how long nothing has come from a server. Its clock does not go backwards.
type silence struct {
	began time.Time
	// heard is when something came last, in nanoseconds since began.
	heard atomic.Int64
}

func newSilence() *silence { return &silence{began: time.Now()} }

// end notes that something has come.
func (s *silence) end() { s.heard.Store(int64(time.Since(s.began))) }

func (s *silence) length() time.Duration { return time.Since(s.began) - time.Duration(s.heard.Load()) }

// pulse is the silence of a stream of its own. Many servers say something on it every few seconds, so that it is kept alive.
type pulse struct {
	silence

	// session is the silence of the whole session, which ends as well.
	session *silence
	// beats counts how often something came while that was neither at once nor longer than maxBeat after the last time.
	beats atomic.Int32
	// doubted is set while a request since got no answer on another connection that had worked: perhaps all of them broke.
	doubted atomic.Bool
}

const (
	leastBeat = time.Second
	maxBeat   = 30 * time.Second
	// steadyBeats is after how many beats a silence of maxBeat means that the stream is dead.
	steadyBeats = 3
)

// begin notes that a stream begins.
func (p *pulse) begin() {
	p.beats.Store(0)
	p.doubted.Store(false)
	p.silence.end()
}

func (p *pulse) end() {
	switch length := p.length(); {
	case length > maxBeat:
		p.beats.Store(0)
	case length > leastBeat:
		p.beats.Add(1)
	}
	p.doubted.Store(false)
	p.silence.end()
	p.session.end()
}

// left returns how much longer the stream may be silent: negative if it is dead, and ok is false where its silence says nothing.
func (p *pulse) left() (left time.Duration, ok bool) {
	return maxBeat - p.length(), p.beats.Load() >= steadyBeats || p.doubted.Load()
}

// Silence returns for how long nothing has come from the server in this session: no response, and nothing on a stream, be it a
// comment that keeps the stream alive.
func (s *Session) Silence() time.Duration { return s.transport.silent().length() }

// CheckStream makes [Session.Watch] return if its stream seems dead, which requests on other connections do not show: it has been
// silent for 30 seconds although the server had kept it alive, or while another connection seems to have broken without a word.
// It returns when to check again; 0 if the stream's silence says nothing.
func (s *Session) CheckStream() (again time.Duration) {
	p := s.transport.stream()
	if p == nil {
		return 0
	}
	left, ok := p.left()
	switch {
	case !ok:
		return 0
	case left > 0:
		return left
	}
	p.begin()
	s.hangUp()
	return 0
}

// SignOfLife asks the server whether it is there, and returns nil as soon as it answers. Otherwise it returns why the session is
// of no more use, when ctx ends at the latest.
//
// It asks by [Session.Ping]. If that is not answered within half of the patience, it also asks for the first page of the list,
// because there are servers that do not know a ping, and over HTTP on a new connection: if only this one is answered, the others
// may have broken without a word, and with them the stream of changes. [Session.Watch] then returns [ErrStreamDead], so that what
// has changed since is found when it is called again. A ping that fails gets the same second opinion, unless a call has failed as
// well, which made the session suspect.
func (s *Session) SignOfLife(ctx context.Context, patience time.Duration, suspect bool) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ask := func(request func(context.Context) error) <-chan error {
		answered := make(chan error, 1)
		asking.Go(func() { answered <- request(ctx) })
		return answered
	}
	pinged := ask(func(ctx context.Context) error {
		_, err := s.ping(ctx)
		return err
	})
	wait := patience / 2
	if s.ignoresPing.Load() {
		wait = 0
	}
	half := time.NewTimer(wait)
	defer half.Stop()
	var refusal error
	select {
	case refusal = <-pinged:
		s.ignoresPing.Store(false)
		if refusal == nil || suspect || (errors.Is(refusal, ErrSessionLost) && !s.mayNotKnowPing(refusal)) {
			return refusal
		}
		pinged = nil
	case <-half.C:
		if wait > 0 {
			s.dialer.renewConnections()
		}
	case <-ctx.Done():
		return noSignOfLife(ctx)
	}
	listed, failure := ask(s.askForList), refusal
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
			if err == nil && refusal == nil && !s.ignoresPing.Swap(true) {
				s.hangUp()
			}
			if err == nil || errors.Is(err, ErrSessionLost) {
				return err
			}
			failure = cmp.Or(failure, err)
		case <-ctx.Done():
			return noSignOfLife(ctx)
		}
	}
	return failure
}

func noSignOfLife(ctx context.Context) error {
	return fmt.Errorf("no sign of life: %w", context.Cause(ctx))
}

// mayNotKnowPing reports whether the answer to a ping may be that of a legacy server which does not know the method.
func (s *Session) mayNotKnowPing(err error) bool {
	status, ok := errors.AsType[*StatusError](err)
	return ok && status.Status == http.StatusBadRequest && !wire.Modern(s.Revision)
}

// askForList requests the first page of the list. As with Ping, any answer will do.
func (s *Session) askForList(ctx context.Context) error {
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
	if s.transport.stream() == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endWatch != nil {
		s.endWatch(ErrStreamDead)
	}
}
