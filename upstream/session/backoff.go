package session

import (
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// firstBackoff and lastBackoff bound the time between attempts to connect. So a server that comes back is connected
	// within about lastBackoff.
	firstBackoff = 200 * time.Millisecond
	lastBackoff  = 10 * time.Second
	// After longAbsence, longBackoff replaces lastBackoff: most servers that were away for so long never come back.
	longAbsence = time.Hour
	longBackoff = time.Minute
	// backoffJitter randomises the time between attempts by ±5 % to avoid a thundering herd, but never above its bound.
	backoffJitter = 0.05
	// steadyTime is the duration of a session or stream after which the backoff starts again. That of a
	// session includes the time to open it.
	steadyTime = 3 * time.Second
)

// newBackoff returns the backoff for opening a connection or stream again.
func newBackoff() *backoff.ExponentialBackOff {
	b := &backoff.ExponentialBackOff{
		InitialInterval: firstBackoff, RandomizationFactor: backoffJitter, Multiplier: 2, MaxInterval: unjittered(lastBackoff),
	}
	b.Reset()
	return b
}

// unjittered returns the largest interval that jitter does not raise above the bound.
func unjittered(bound time.Duration) time.Duration {
	return time.Duration(float64(bound) / (1 + backoffJitter))
}

// Jitter reduces a time by up to half, at random.
func Jitter(wait time.Duration) time.Duration {
	return wait - time.Duration(float64(wait)*rand.Float64()/2) //nolint:gosec // jitter
}

// reconnect computes the waits between attempts to connect to a server. Make it with
// [newReconnect]. Only one goroutine may use it.
type reconnect struct {
	backoff *backoff.ExponentialBackOff
	absent  time.Time // end of the last steady session
}

// newReconnect returns the waits for a server that has never been connected.
func newReconnect() *reconnect { return &reconnect{newBackoff(), time.Now()} }

// next returns the wait after a failed attempt or a broken session. steady is true if the session
// had a list and lasted longer than steadyTime.
func (r *reconnect) next(steady bool) time.Duration {
	if steady {
		*r = *newReconnect()
	}
	if time.Since(r.absent) > longAbsence {
		r.backoff.MaxInterval = unjittered(longBackoff)
	}
	return r.backoff.NextBackOff()
}
