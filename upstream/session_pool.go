package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/health"
	"github.com/promptweir/promptweir/upstream/queue"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxPooled bounds the pooled sessions of a server, and maxPerSet those with the same set of
	// capabilities.
	maxPooled = 8
	maxPerSet = 4
	// maxPerCaller bounds those that one caller holds at a time, so that a caller that leaves
	// server requests without a reply does not keep others from being asked.
	maxPerCaller = maxPerSet / 2
	// pooledIdleTimeout is how long a session is kept that no call uses.
	pooledIdleTimeout = 5 * time.Minute
	// readyTimeout is how long the first use of a session waits for its stream of server messages
	// to open.
	readyTimeout = 2 * time.Second
	// pooledRetryPause is how long no session of a set is opened after one could not be opened.
	pooledRetryPause = 30 * time.Second
)

var errPoolExhausted = fmt.Errorf("%w: each call that may ask its client for input needs a "+
	"session of its own", queue.ErrConcurrency)

// sessionPool has the sessions with a server beside the primary one, for clients that can be asked
// for input or want log messages. A legacy server learns the client's capabilities when a session
// begins, so each set of capabilities has sessions of its own, opened when first needed:
//
//	no capabilities                  the primary session, shared by all calls
//	the transport ties messages      one session for each set, shared by all calls with that set, until the server
//	  to calls (Streamable HTTP)       sends a request on another stream than a call's
//	it does not, or no longer        up to maxPerSet sessions for each set, with one call at a time
//
// Where a session has one call at a time, an untied message can only belong to the one call in
// flight. After a call that was given up the session is closed, and before the next call its server
// must have answered a ping: whatever it still sent for the last call was received before the
// answer, and was refused. Calls that get no session use the primary one, which declares no
// capabilities.
type sessionPool struct {
	name    string // the upstream's
	logger  *slog.Logger
	primary *client.Session
	// revision is what sessions speak at most, and open opens one.
	revision string
	open     func(context.Context, client.SessionOptions) (*client.Session, error)
	// noSession is the error of a call that gets none; nil if the primary one does instead.
	noSession error
	ctx       context.Context //nolint:containedctx // ends with the primary session
	cancel    context.CancelFunc
	work      sync.WaitGroup

	mu     sync.Mutex // guards what follows
	all    []*pooledSession
	closed bool
	// exclusive says that a session has one call at a time.
	exclusive bool
	// waiting counts the calls that wait for a session of a set.
	waiting map[wire.Capabilities]int
	// failedAt is when a session of a set could last not be opened.
	failedAt map[wire.Capabilities]time.Time
	// changed is closed, and replaced, when a call that waits may find a session.
	changed chan struct{}
}

// pooledSession is one session of a pool, whose lock guards it.
type pooledSession struct {
	set       wire.Capabilities
	exclusive bool
	session   *client.Session // nil until it is open
	calls     int
	caller    string // of the one call, if exclusive
	cancel    context.CancelFunc
	idle      *time.Timer
}

func newSessionPool(ctx context.Context, name string, logger *slog.Logger, primary *client.Session) *sessionPool {
	ctx, cancel := context.WithCancel(ctx)
	return &sessionPool{
		name: name, logger: logger, primary: primary, revision: primary.Revision, open: primary.Sibling,
		ctx: ctx, cancel: cancel, exclusive: !primary.TiesMessages(),
		waiting: map[wire.Capabilities]int{}, failedAt: map[wire.Capabilities]time.Time{}, changed: make(chan struct{}),
	}
}

// acquire returns the session for a call. A pooled one must be released; it is nil for the primary
// session. If none is free, acquire waits; for one that has yet to be opened only half of the time
// that is left.
func (p *sessionPool) acquire(
	ctx context.Context, d *queue.Deadline, relay *Relay,
) (*client.Session, *pooledSession, error) {
	set, needed := p.needed(relay)
	if !needed {
		return p.primary, nil, nil
	}
	half := time.After(d.Left() / 2)
	p.wait(set, 1)
	defer p.wait(set, -1)
	for {
		free, opening, changed := p.tryAcquire(set, relay.Caller)
		switch {
		case free != nil:
			return free.session, free, nil
		case changed == nil:
			return p.primary, nil, p.noSession
		}
		late := half
		if !opening {
			late = nil // there are sessions, but they are busy
		}
		select {
		case <-changed:
		case <-late:
			return p.primary, nil, p.noSession
		case <-ctx.Done():
			return nil, nil, unavailable(p.name, Overloaded, 0, errPoolExhausted)
		}
	}
}

// needed returns the capabilities that a session for the relay must declare, and whether that takes
// a pooled session.
func (p *sessionPool) needed(relay *Relay) (set wire.Capabilities, needed bool) {
	if relay.Reply != nil && !wire.Modern(p.revision) {
		if declared, err := wire.ParseObject(relay.Capabilities); err == nil {
			set = wire.ReadCapabilities(declared).In(p.revision)
		}
	}
	logs := relay.LogLevel != "" && relay.Notify != nil && !p.primary.TiesMessages()
	return set, set != 0 || logs
}

// wait counts the calls that wait for a session of a set.
func (p *sessionPool) wait(set wire.Capabilities, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting[set] += n; p.waiting[set] == 0 {
		delete(p.waiting, set)
	}
}

// tryAcquire returns a free session, or begins to open one if that is allowed. Changed is closed
// when it is worth another try; it is nil if it never will be.
func (p *sessionPool) tryAcquire(
	set wire.Capabilities, caller string,
) (free *pooledSession, opening bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Not even a free session: otherwise a caller with many calls could hold all that there may be.
	if p.heldLocked(set, caller) >= maxPerCaller {
		return nil, false, p.changed
	}
	same, pending := 0, 0
	for _, s := range p.all {
		switch {
		case s.set != set || s.exclusive != p.exclusive:
		case s.session == nil:
			same++
			pending++
		case s.exclusive && s.calls > 0:
			same++
		default:
			s.calls++
			s.caller = caller
			// If its time has come just now, the timer waits for the lock and then finds a call.
			if s.idle != nil {
				s.idle.Stop()
			}
			return s, false, nil
		}
	}
	if p.closed || time.Since(p.failedAt[set]) < pooledRetryPause {
		return nil, false, nil
	}
	// Shared sessions need no second one. Of exclusive ones, no more are opened than calls wait
	// for.
	wanted := same == 0 || (p.exclusive && same < maxPerSet && pending < p.waiting[set])
	if wanted && p.makeRoomLocked() {
		p.openLocked(set)
		same++
		pending++
	}
	if same == 0 {
		return nil, false, nil
	}
	return nil, pending > 0, p.changed
}

// heldLocked returns how many exclusive sessions of a set a caller holds.
func (p *sessionPool) heldLocked(set wire.Capabilities, caller string) (n int) {
	// Callers of whom nothing is known count as one: otherwise a single one of them could hold all
	// sessions.
	for _, s := range p.all {
		if s.exclusive && s.calls > 0 && s.set == set && s.caller == caller {
			n++
		}
	}
	return n
}

// makeRoomLocked reports whether there may be one more session, and closes an unused one for it if
// need be.
func (p *sessionPool) makeRoomLocked() bool {
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
func (p *sessionPool) openLocked(set wire.Capabilities) {
	ctx, cancel := context.WithCancel(p.ctx)
	s := &pooledSession{set: set, exclusive: p.exclusive, cancel: cancel}
	p.all = append(p.all, s)
	p.work.Go(func() {
		defer cancel()
		err := client.Guard(p.logger, func() error { return p.serve(ctx, s) })
		p.mu.Lock()
		defer p.mu.Unlock()
		// Remembered only if it could not be opened: one that broke later may well be replaced at
		// once.
		if s.session == nil && ctx.Err() == nil {
			p.logger.WarnContext(ctx, "no session for clients that can be asked for input", slog.Any("error", err))
			maps.DeleteFunc(p.failedAt, func(_ wire.Capabilities, at time.Time) bool { return time.Since(at) > pooledRetryPause })
			p.failedAt[set] = time.Now()
		}
		p.dropLocked(s)
	})
}

// serve opens a session and receives what belongs to no call until ctx ends or the session breaks.
func (p *sessionPool) serve(ctx context.Context, s *pooledSession) error {
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
	// The server may send its requests on the stream, so that calls wait for it, but not for long.
	late := time.AfterFunc(readyTimeout, ready)
	defer late.Stop()
	for pause := health.NewBackoff(); ; {
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
		if err := sleep(ctx, pause.NextBackOff()); err != nil {
			return err
		}
	}
}

// makeExclusive gives each session one call at a time from now on, because the server sends
// requests without saying in which call.
func (p *sessionPool) makeExclusive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exclusive {
		return
	}
	p.exclusive = true
	for _, s := range slices.Clone(p.all) { // those in use are dropped when their calls have ended
		if s.session != nil && s.calls == 0 {
			p.dropLocked(s)
		}
	}
}

// idleLocked makes a session one that no call uses.
func (p *sessionPool) idleLocked(s *pooledSession) {
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
func (p *sessionPool) release(s *pooledSession, lost bool) {
	abandoned := s.session.Abandoned() // it has a lock of its own
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case lost, s.exclusive && abandoned:
		p.dropLocked(s)
	case !s.exclusive:
		if s.calls--; s.calls > 0 {
			return
		}
		if p.exclusive {
			p.dropLocked(s)
			return
		}
		p.idleLocked(s)
	// Nothing may be added to work any more, which close waits for. The session ends with ctx.
	case p.closed:
	// It stays in use until the server has shown, by answering a ping, that nothing more comes for
	// the call.
	default:
		p.work.Go(func() {
			err := s.session.Ping(p.ctx)
			p.mu.Lock()
			defer p.mu.Unlock()
			if err != nil {
				p.dropLocked(s)
				return
			}
			p.idleLocked(s)
		})
	}
}

// dropLocked removes a session from the pool, and closes it in the background.
func (p *sessionPool) dropLocked(s *pooledSession) {
	p.all = slices.DeleteFunc(p.all, func(other *pooledSession) bool { return other == s })
	if s.idle != nil {
		s.idle.Stop()
	}
	s.cancel()
	p.notifyLocked()
}

// notifyLocked makes the calls that wait try again.
func (p *sessionPool) notifyLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// close closes all sessions and waits until they have ended.
func (p *sessionPool) close() {
	p.mu.Lock()
	// First under the lock: a WaitGroup must not grow from zero while it is waited for.
	p.closed = true
	p.notifyLocked()
	p.mu.Unlock()
	p.cancel()
	p.work.Wait()
}
