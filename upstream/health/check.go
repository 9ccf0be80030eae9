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

// NextCheck returns when a server is to be checked that has been idle for a time; now, if that is not
// positive. A server that asked for a pause is asked nothing until its end.
func (e *Server) NextCheck(idle time.Duration) time.Duration {
	left := time.Duration(float64(maxIdle)*(1-idleJitter*rand.Float64())) - idle //nolint:gosec // jitter
	return max(left, e.Paused().Rest())
}
