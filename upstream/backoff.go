package upstream

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// firstBackoff and lastBackoff bound the time between two attempts to connect. A server that is back is well again after 10 seconds:
	// what is left of them is for the attempt and the list.
	firstBackoff = 200 * time.Millisecond
	lastBackoff  = 9 * time.Second
	// backoffJitter randomises that time by ±50 % to avoid a thundering herd.
	backoffJitter = 0.5
	// steadyTime is how long a session or a stream must have lasted for the backoff to start again.
	steadyTime = 3 * time.Second
)

func newBackoff() *backoff.ExponentialBackOff {
	b := &backoff.ExponentialBackOff{
		InitialInterval: firstBackoff, RandomizationFactor: backoffJitter, Multiplier: 2,
		MaxInterval: lastBackoff * 2 / 3, // which jitter raises to lastBackoff at most
	}
	b.Reset()
	return b
}

// sleep waits for a time, or returns the error of a context that ends before.
func sleep(ctx context.Context, wait time.Duration) error {
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// signal marks a channel that has room for one mark. It never blocks.
func signal(marked chan<- struct{}) {
	select {
	case marked <- struct{}{}:
	default:
	}
}
