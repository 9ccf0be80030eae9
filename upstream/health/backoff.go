package health

import (
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// firstBackoff and lastBackoff bound the time between two attempts to connect. A server that
	// returns is listed soon after lastBackoff.
	firstBackoff = 200 * time.Millisecond
	lastBackoff  = 10 * time.Second
	// After longAbsence, longBackoff takes the place of lastBackoff: most such servers are gone for
	// good.
	longAbsence = time.Hour
	longBackoff = time.Minute
	// backoffJitter randomises these times by ±25 % to avoid a thundering herd. None of them exceeds
	// its bound.
	backoffJitter = 0.25
	// SteadyTime is how long a session or a stream must have lasted for the backoff to start again.
	SteadyTime = 3 * time.Second
)

// NewBackoff returns the backoff of anything that is opened again.
func NewBackoff() *backoff.ExponentialBackOff {
	b := &backoff.ExponentialBackOff{
		InitialInterval: firstBackoff, RandomizationFactor: backoffJitter, Multiplier: 2, MaxInterval: unjittered(lastBackoff),
	}
	b.Reset()
	return b
}

// unjittered returns the interval that jitter raises to a bound at most.
func unjittered(bound time.Duration) time.Duration {
	return time.Duration(float64(bound) / (1 + backoffJitter))
}

// Jitter takes up to half off a time.
func Jitter(wait time.Duration) time.Duration {
	return wait - time.Duration(float64(wait)*rand.Float64()/2) //nolint:gosec // jitter
}

// Reconnect says how long to wait before the next attempt to connect to a server. Its zero value is
// not usable. It is for one goroutine.
type Reconnect struct {
	backoff *backoff.ExponentialBackOff
	absent  time.Time // since when no session has been steady
}

// NewReconnect returns the waits for a server that has not been connected yet.
func NewReconnect() *Reconnect { return &Reconnect{NewBackoff(), time.Now()} }

// Next returns the wait after an attempt that failed or a session that broke. Steady reports whether
// that session had listed its prompts and lasted for SteadyTime.
func (r *Reconnect) Next(steady bool) time.Duration {
	if steady {
		*r = *NewReconnect()
	}
	if time.Since(r.absent) > longAbsence {
		r.backoff.MaxInterval = unjittered(longBackoff)
	}
	return r.backoff.NextBackOff()
}
