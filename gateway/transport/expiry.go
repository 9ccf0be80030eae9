package transport

import (
	"context"
	"time"
)

// clockCheck is how often the clock is compared with the time at which a credential expires: timers do not notice when the clock
// is set, and stand still while the machine sleeps.
const clockCheck = 30 * time.Second

// withExpiry returns a context that ends, with [context.DeadlineExceeded] as its cause, when the clock shows that a credential
// has expired; the zero time is never.
func withExpiry(ctx context.Context, expiry time.Time) (context.Context, context.CancelFunc) {
	return withExpiryBy(ctx, expiry, time.Now)
}

func withExpiryBy(ctx context.Context, expiry time.Time, now func() time.Time) (context.Context, context.CancelFunc) {
	if expiry.IsZero() {
		return context.WithCancel(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	expiry = expiry.Round(0) // without a monotonic reading: what counts is the clock
	var timer *time.Timer
	check := func() {
		left := expiry.Sub(now().Round(0))
		if left <= 0 {
			cancel(context.DeadlineExceeded)
		}
		if ctx.Err() == nil {
			timer.Reset(min(left, clockCheck))
		}
	}
	timer = time.AfterFunc(clockCheck, check)
	check()
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// hasExpired reports whether a context has ended since the credential had expired.
func hasExpired(ctx context.Context) bool { return context.Cause(ctx) == context.DeadlineExceeded } //nolint:errorlint // the value that withExpiry gives it
