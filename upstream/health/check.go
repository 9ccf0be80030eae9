package health

import (
	"math/rand/v2"
	"time"
)

const (
	// maxIdle is how long nothing may come from a server before it is checked. Jitter takes off up
	// to a tenth, so that servers that became connected together are not checked together for
	// ever.
	maxIdle    = 30 * time.Second
	idleJitter = 0.1
	// checkTimeout is how long a health check may take before the server is Silent.
	checkTimeout = 2500 * time.Millisecond
)

// Pause is a time in which a server wants no requests, as it said by a Retry-After (RFC 9110,
// section 10.2.3).
type Pause struct {
	Until   time.Time // by the monotonic clock
	Failure Failure
}

// Rest returns how much of the pause is left. That of the nil pause is 0.
func (p *Pause) Rest() time.Duration {
	if p == nil {
		return 0
	}
	return max(time.Until(p.Until), 0)
}

// Pause notes that the server asked for a pause, and reports whether it had not before.
func (e *Server) Pause(rest time.Duration, f Failure) (news bool) {
	return e.pause.Swap(&Pause{time.Now().Add(rest), f}).Rest() == 0
}

// Paused returns the pause that the server has asked for; nil if there is none, or it is over.
func (e *Server) Paused() *Pause {
	if p := e.pause.Load(); p.Rest() > 0 {
		return p
	}
	return nil
}

// NextCheck returns when the server is to be checked from which nothing has come for a time; now,
// if that is not positive. Stream is when its stream has to be looked at, 0 if it need not be. A
// server that asked for a pause is not asked for anything meanwhile.
func (e *Server) NextCheck(idle, stream time.Duration) time.Duration {
	left := time.Duration(float64(maxIdle)*(1-idleJitter*rand.Float64())) - idle //nolint:gosec // jitter
	if stream > 0 {
		left = min(left, stream)
	}
	return max(left, e.Paused().Rest())
}

// CheckTimeout returns how long a check may take before the server is Silent. A server that was
// slow twice in a row gets twice the time that it took. It is for the goroutine that checks, as
// Checked is.
func (e *Server) CheckTimeout() time.Duration {
	return max(checkTimeout, min(2*e.checks[0], 2*e.checks[1], e.settings.Timeout))
}

// Late notes that nothing has come from the server for the time of a check.
func (e *Server) Late() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.silent = true
}

// Checked notes that a check has ended after a time, and reports whether the server was Silent
// and is not any more, because the server answered.
func (e *Server) Checked(took time.Duration, answered bool) (back bool) {
	e.checks[0], e.checks[1] = e.checks[1], took
	e.mu.Lock()
	defer e.mu.Unlock()
	back = answered && e.silent
	e.silent = e.silent && !answered
	return back
}
