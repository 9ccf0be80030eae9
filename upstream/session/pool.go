package session

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxPooled bounds the sessions of a pool, and maxPerSet the exclusive sessions (see pool) with the
	// same set of capabilities.
	maxPooled = 8
	maxPerSet = 4
	// maxPerCaller bounds the sessions that one caller holds, so that a caller that does not reply
	// to server requests does not block others.
	maxPerCaller = maxPerSet / 2
	// pooledIdleTimeout is the time after which an unused session is closed.
	pooledIdleTimeout = 5 * time.Minute
	// readyTimeout bounds the wait at the first use of a session for its stream of server messages.
	readyTimeout = 2 * time.Second
	// pooledRetryPause is the pause before the next attempt after a session could not be opened. It
	// applies to sessions with the same set of capabilities.
	pooledRetryPause = 30 * time.Second
)

// ErrPoolExhausted means that no session became free within the time of the call.
var ErrPoolExhausted = errors.New("the maximum number of calls is in flight: each call that may ask its client for " +
	"input needs a session of its own")

// pool holds the sessions in addition to the primary session, for clients that can be asked for input or
// that request log messages. A legacy server learns the client's capabilities at the start of a
// session, so each set of capabilities has its own sessions, which are opened when first needed:
//
//	no capabilities                  the primary session, shared by all calls
//	the transport ties messages      one session for each set, shared by all calls with that set, until the server
//	  to calls (Streamable HTTP)       sends a request outside of the streams of calls
//	after that, or other transports  up to maxPerSet sessions for each set, with one call at a time
//
// If a session has one call at a time, a message that is tied to no call belongs to the call in flight. After an abandoned
// call the session is closed. After any other call the server must answer a ping before the next call: until then, late
// messages about the last call arrive and are refused. Calls without a pooled session use the primary session, which
// declares no capabilities, unless noSession is set.
type pool struct {
	logger  *slog.Logger
	primary *client.Session
	// revision is the newest revision that sessions speak. open opens a session.
	revision string
	open     func(context.Context, client.SessionOptions) (*client.Session, error)
	// noSession is the error of a call that gets no pooled session. If nil, the call uses the
	// primary session.
	noSession error
	ctx       context.Context //nolint:containedctx // ends with the primary session
	cancel    context.CancelFunc
	work      sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	all    []*pooledSession
	closed bool
	// exclusive is true if a session has one call at a time.
	exclusive bool
	// failedAt has the time of the last failure to open a session of a set.
	failedAt map[wire.Capabilities]time.Time
	// changed is closed, and replaced by a new channel, when a waiting call may find a session.
	changed chan struct{}
}

// pooledSession is a session of a pool. The pool's lock guards it.
type pooledSession struct {
	set       wire.Capabilities
	exclusive bool
	session   *client.Session // nil until it is open
	calls     int
	caller    string // of the current call, if exclusive
	cancel    context.CancelFunc
	idle      *time.Timer
}

func newPool(ctx context.Context, logger *slog.Logger, primary *client.Session) *pool {
	ctx, cancel := context.WithCancel(ctx)
	return &pool{
		logger: logger, primary: primary, revision: primary.Revision, open: primary.Sibling,
		ctx: ctx, cancel: cancel, exclusive: !primary.TiesMessages(),
		failedAt: map[wire.Capabilities]time.Time{}, changed: make(chan struct{}),
	}
}

// acquire returns the session for a call and its entry in the pool, which the caller releases. The entry is nil for the
// primary session. acquire waits if all sessions are busy. For a session that is still being opened, it waits for at most
// half of the remaining time.
func (p *pool) acquire(
	ctx context.Context, relay *client.Relay,
) (*client.Session, *pooledSession, error) {
	set, needed := p.needed(relay)
	if !needed {
		return p.primary, nil, nil
	}
	until, _ := ctx.Deadline()
	half := time.After(time.Until(until) / 2)
	for isFirst := true; ; isFirst = false {
		free, opening, changed := p.tryAcquire(set, relay.Caller, isFirst)
		switch {
		case free != nil:
			return free.session, free, nil
		case changed == nil:
			return p.primary, nil, p.noSession
		}
		late := half
		if !opening {
			late = nil // all sessions are busy: wait until ctx ends
		}
		select {
		case <-changed:
		case <-late:
			return p.primary, nil, p.noSession
		case <-ctx.Done():
			return nil, nil, ErrPoolExhausted
		}
	}
}

// needed returns the capabilities that a session for the relay must declare, and reports whether the relay needs a pooled
// session.
func (p *pool) needed(relay *client.Relay) (set wire.Capabilities, needed bool) {
	if relay.Reply != nil && !wire.Modern(p.revision) {
		if declared, err := wire.ParseObject(relay.Capabilities); err == nil {
			set = wire.ReadCapabilities(declared).In(p.revision)
		}
	}
	logs := relay.LogLevel != "" && relay.Notify != nil && !p.primary.TiesMessages()
	return set, set != 0 || logs
}

// tryAcquire returns a free session, or begins to open one if that is allowed. changed is closed when another try may
// succeed. It is nil if no other try can succeed. isFirst is true for the first try of a call.
func (p *pool) tryAcquire(
	set wire.Capabilities, caller string, isFirst bool,
) (free *pooledSession, opening bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A caller at its limit does not even get a free session. Otherwise a caller with many calls could hold all sessions.
	if p.heldLocked(set, caller) >= maxPerCaller {
		return nil, false, p.changed
	}
	same := 0
	for _, s := range p.all {
		switch {
		case s.set != set || s.exclusive != p.exclusive:
		case s.session == nil:
			same++
			opening = true
		case s.exclusive && s.calls > 0:
			same++
		default:
			s.calls++
			s.caller = caller
			// If the timer has just fired, its function waits for the lock and then finds that s has a call.
			if s.idle != nil {
				s.idle.Stop()
			}
			return s, false, nil
		}
	}
	if p.closed || time.Since(p.failedAt[set]) < pooledRetryPause {
		return nil, false, nil
	}
	// One shared session is enough for a set. Each call that finds no free exclusive session opens one at its first try,
	// even while other calls open theirs, because a child may take long to start.
	wanted := same == 0 || (p.exclusive && same < maxPerSet && (isFirst || !opening))
	if wanted && p.makeRoomLocked() {
		p.openLocked(set)
		opening = true
	}
	if same == 0 && !opening {
		return nil, false, nil
	}
	return nil, opening, p.changed
}

// heldLocked returns the number of exclusive sessions of a set that a caller holds. All unknown callers count as one
// caller; otherwise they could hold all sessions.
func (p *pool) heldLocked(set wire.Capabilities, caller string) (n int) {
	for _, s := range p.all {
		if s.exclusive && s.calls > 0 && s.set == set && s.caller == caller {
			n++
		}
	}
	return n
}

// makeRoomLocked reports whether another session fits. If needed, it closes an unused session.
func (p *pool) makeRoomLocked() bool {
	if len(p.all) < maxPooled {
		return true
	}
	unused := slices.IndexFunc(p.all, func(s *pooledSession) bool { return s.session != nil && s.calls == 0 })
	if unused < 0 {
		return false
	}
	p.dropLocked(p.all[unused])
	return true
}

// openLocked opens a session in the background.
func (p *pool) openLocked(set wire.Capabilities) {
	ctx, cancel := context.WithCancel(p.ctx)
	s := &pooledSession{set: set, exclusive: p.exclusive, cancel: cancel}
	p.all = append(p.all, s)
	p.work.Go(func() {
		defer cancel()
		err := client.RecoverToError(p.logger, func() error { return p.serve(ctx, s) })
		p.mu.Lock()
		defer p.mu.Unlock()
		// Record only the failure to open a session. A session that breaks later may be replaced at once.
		if s.session == nil && ctx.Err() == nil {
			p.logger.WarnContext(ctx, "no session for clients that can be asked for input", slog.Any("error", err))
			p.failedAt[set] = time.Now()
		}
		p.dropLocked(s)
	})
}

// serve opens a session and receives messages that belong to no call, until ctx ends or the session
// breaks.
func (p *pool) serve(ctx context.Context, s *pooledSession) error {
	session, err := p.open(ctx, client.SessionOptions{
		Capabilities: s.set, Relays: true, Exclusive: s.exclusive, OnUntied: p.makeExclusive,
	})
	if err != nil {
		return err
	}
	defer session.Close()
	ready := sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		s.session = session
		p.idleLocked(s)
	})
	// The server may send requests for the client on the stream, so calls wait for the stream for a short time.
	late := time.AfterFunc(readyTimeout, ready)
	defer late.Stop()
	for pause := newBackoff(); ; {
		err := session.Watch(ctx, ready)
		ready()
		switch {
		case ctx.Err() != nil, errors.Is(err, client.ErrSessionLost), errors.Is(err, client.ErrExited):
			return err
		case errors.Is(err, client.ErrNoStream):
			select {
			case <-session.Done():
				return session.Err()
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := Sleep(ctx, pause.NextBackOff()); err != nil {
			return err
		}
	}
}

// makeExclusive gives each session one call at a time from now on, because the server sends
// requests that are not tied to a call.
func (p *pool) makeExclusive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exclusive {
		return
	}
	p.exclusive = true
	for _, s := range slices.Clone(p.all) { // sessions in use are dropped after their calls
		if s.session != nil && s.calls == 0 {
			p.dropLocked(s)
		}
	}
}

// idleLocked marks a session as unused.
func (p *pool) idleLocked(s *pooledSession) {
	s.calls, s.caller = 0, ""
	s.idle = time.AfterFunc(pooledIdleTimeout, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if s.calls == 0 {
			p.dropLocked(s)
		}
	})
	p.notifyLocked()
}

// release returns a session to the pool after a call.
func (p *pool) release(s *pooledSession, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case lost, s.exclusive && s.session.Abandoned():
		p.dropLocked(s)
	case !s.exclusive:
		switch s.calls--; {
		case s.calls > 0:
		case p.exclusive: // it became exclusive during the calls
			p.dropLocked(s)
		default:
			p.idleLocked(s)
		}
	case p.closed: // add nothing to work, because close waits for it: the session ends with ctx
	default:
		// The session stays in use until the server has answered a ping. After that, no message about the call arrives.
		p.work.Go(func() {
			err := s.session.Ping(p.ctx)
			p.mu.Lock()
			defer p.mu.Unlock()
			if err == nil {
				p.idleLocked(s)
			} else {
				p.dropLocked(s)
			}
		})
	}
}

// dropLocked removes a session from the pool, and closes it in the background.
func (p *pool) dropLocked(s *pooledSession) {
	p.all = slices.DeleteFunc(p.all, func(other *pooledSession) bool { return other == s })
	if s.idle != nil {
		s.idle.Stop()
	}
	s.cancel()
	p.notifyLocked()
}

// notifyLocked makes waiting calls try again.
func (p *pool) notifyLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// close closes all sessions and waits until they have ended.
func (p *pool) close() {
	p.mu.Lock()
	// Set closed before Wait and under the lock: a WaitGroup must not grow from zero during Wait.
	p.closed = true
	p.notifyLocked()
	p.mu.Unlock()
	p.cancel()
	p.work.Wait()
}
