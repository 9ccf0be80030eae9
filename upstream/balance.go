package upstream

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/promptweir/promptweir/upstream/client"
)

const (
	// leastQuiet and mostQuiet bound for how long an endpoint must have answered nothing, while others did, to be held back.
	leastQuiet = 100 * time.Millisecond
	mostQuiet  = 2 * time.Second
	// quietSignPause is how long a quiet endpoint is not asked for a sign of life again.
	quietSignPause = time.Second
)

// balance decides which of several endpoints gets a call: the one whose turn it is, or another one, taken at random, that has
// fewer calls in flight. So an endpoint that is slower gets fewer calls, and one that hangs no more than those that are stuck there
// already. For endpoints that are equally fast the turns alone count, and they share the calls evenly.
//
// An endpoint that has answered nothing for three times as long as its calls usually take, while others did, is held back: it gets
// one call at a time, and is asked for a sign of life.
type balance struct {
	mu sync.Mutex // guards turn, and each endpoint's load
	// turn counts the calls. The endpoint whose last turn was longest ago is next.
	turn uint64
}

// load is what the calls to an endpoint show. The balance guards it.
type load struct {
	// lastTurn is the last call for which it was picked first.
	lastTurn uint64
	// calls are in flight. Unanswered is when the first call was made since the endpoint has answered one, at answered; zero if
	// none was.
	calls                int
	unanswered, answered time.Time
	usual                slowest
	// asked is when a sign of life was asked for last.
	asked time.Time
}

// order returns the endpoints to try, best first.
func (b *balance) order(healthy, unhealthy []*endpoint) []*endpoint {
	b.mu.Lock()
	defer b.mu.Unlock()
	// Stable, so that the configured order counts among endpoints that had no turn yet.
	slices.SortStableFunc(healthy, func(a, b *endpoint) int { return cmp.Compare(a.load.lastTurn, b.load.lastTurn) })
	if free := b.holdBackLocked(healthy); free > 1 {
		other := 1 + rand.IntN(free-1) //nolint:gosec // no secret
		if e := healthy[other]; e.load.calls < healthy[0].load.calls {
			copy(healthy[1:], healthy[:other])
			healthy[0] = e
		}
	}
	ordered := append(healthy, unhealthy...)
	b.turn++
	ordered[0].load.lastTurn = b.turn
	return ordered
}

// holdBackLocked moves quiet endpoints that have a call to the end, and returns how many others there are.
func (b *balance) holdBackLocked(endpoints []*endpoint) (free int) {
	var answered time.Time // by any of them
	for _, e := range endpoints {
		if e.load.answered.After(answered) {
			answered = e.load.answered
		}
	}
	now := time.Now()
	isHeld := func(e *endpoint) bool { return e.load.calls > 0 && e.load.isQuiet(now, answered) }
	if !slices.ContainsFunc(endpoints, isHeld) {
		return len(endpoints)
	}
	all := slices.Clone(endpoints)
	for _, e := range all {
		if !isHeld(e) {
			endpoints[free] = e
			free++
		}
	}
	held := endpoints[free:free]
	for _, e := range all {
		if isHeld(e) {
			held = append(held, e)
		}
	}
	for _, e := range held {
		if now.Sub(e.load.asked) > quietSignPause {
			e.load.asked = now
			signal(e.connection.Load().suspect)
		}
	}
	return free
}

// isQuiet reports whether the endpoint has not answered for longer than usual. Answered is when any endpoint has.
func (l *load) isQuiet(now, answered time.Time) bool {
	return !l.unanswered.IsZero() && answered.After(l.unanswered) && now.Sub(l.unanswered) > l.usual.quietBound()
}

// begin notes that a call is sent to an endpoint, and returns when.
func (b *balance) begin(e *endpoint) (now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now = time.Now()
	if e.load.calls++; e.load.unanswered.IsZero() {
		e.load.unanswered = now
	}
	return now
}

// end notes how a call ended that began at a time.
func (b *balance) end(e *endpoint, begun time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.load.calls--
	if client.Answered(err) || client.Started(err) {
		now := time.Now()
		e.load.usual.add(now.Sub(begun))
		e.load.answerLocked(now)
	}
}

// answer notes that an endpoint has shown that it is there, by another message than a response.
func (b *balance) answer(e *endpoint) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.load.answerLocked(time.Now())
}

func (l *load) answerLocked(now time.Time) {
	l.answered, l.unanswered = now, time.Time{}
	if l.calls > 0 {
		l.unanswered = now
	}
}

// slowest follows how long the slowest of a hundred calls takes: their 99th percentile.
type slowest struct {
	now, before time.Duration
	ended       int
}

const slowestOf = 100

func (s *slowest) add(took time.Duration) {
	s.now = max(s.now, took)
	if s.ended++; s.ended == slowestOf {
		s.before, s.now, s.ended = s.now, 0, 0
	}
}

// quietBound returns for how long an endpoint may answer nothing.
func (s *slowest) quietBound() time.Duration {
	usual := max(s.now, s.before)
	if usual == 0 { // nothing is known
		return mostQuiet
	}
	return min(max(3*usual, leastQuiet), mostQuiet)
}
