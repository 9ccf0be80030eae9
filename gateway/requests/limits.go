package requests

import (
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxBuckets bounds the buckets. The least recently used bucket is dropped first. If its principal
// returns, it gets a full bucket.
const maxBuckets = 10_000

// SharedLimits count requests over all replicas of the gateway.
type SharedLimits interface {
	// Acquire counts a request of a principal, given by its key, against the rate of each limit. If
	// the request must wait, Acquire counts it against no limit and returns the wait. It must return
	// quickly. An error means that the replicas cannot share their counts at the moment. Do not change
	// limits afterwards.
	Acquire(principal string, limits []*config.Limit) (wait time.Duration, err error)
}

// limits count each principal's requests against limit blocks.
type limits struct {
	shared  SharedLimits // nil if there are no other replicas
	buckets *lru.Cache[bucketKey, *bucket]
}

// bucketKey identifies one principal's bucket of one limit block.
type bucketKey struct {
	// limit is the block with Place and Streams cleared: a reload that changes only these keeps the
	// bucket.
	limit     config.Limit
	principal string
}

func keyOf(limit *config.Limit, principal string) bucketKey {
	key := bucketKey{*limit, principal}
	key.limit.Place, key.limit.Streams = config.Place{}, 0
	return key
}

// bucket is one principal's state for one limit.
type bucket struct {
	rate        *rate.Limiter
	concurrency int // 0 means unlimited

	mu       sync.Mutex // guards inFlight
	inFlight int
}

func newLimits(shared SharedLimits) *limits {
	buckets, _ := lru.New[bucketKey, *bucket](maxBuckets) // fails only for a size below one
	return &limits{shared, buckets}
}

// counted lists the buckets that count a request. It is nil if no limit counts the request.
type counted []acquired

// acquired is a bucket that counts a request. reservation is nil if this replica does not count the
// rate.
type acquired struct {
	bucket      *bucket
	reservation *rate.Reservation
}

// release ends the counting. Calling it again does nothing.
func (c *counted) release() {
	for _, a := range *c {
		a.bucket.release()
	}
	*c = nil
}

// count counts the request against limits until its scope is closed. If the request begins again
// with another configuration, it no longer counts as in flight in the earlier limits.
func (x *run) count(l *limits, blocks ...*config.Limit) (err error) {
	x.scope.limited.release()
	x.scope.limited, err = l.acquire(&x.caller.Principal, blocks...)
	return err
}

// acquire counts a request against each limit that is not nil, or against none if one is used up. If
// there are several replicas, a rate limits the requests to all of them, but a concurrency limits only
// the requests to each.
func (l *limits) acquire(principal *policy.Principal, blocks ...*config.Limit) (counted, error) {
	if !slices.ContainsFunc(blocks, limitsRequests) {
		return nil, nil
	}
	key := principal.Key()
	blocks = slices.DeleteFunc(blocks, func(block *config.Limit) bool { return !limitsRequests(block) })
	if l.shared == nil {
		return l.acquireHere(key, blocks, true)
	}
	// Count requests in flight first, because a rate that the store has counted cannot be undone.
	c, err := l.acquireHere(key, blocks, false)
	if err != nil {
		return nil, err
	}
	// Clone: without it, the compiler would allocate blocks on the heap even without shared limits.
	wait, err := l.shared.Acquire(key, slices.Clone(blocks))
	switch {
	case err != nil:
		// Release first, or the request would count twice as in flight.
		c.release()
		return l.acquireHere(key, blocks, true)
	case wait > 0:
		c.release()
		return nil, rateLimited(wait)
	}
	return c, nil
}

// acquireHere is [limits.acquire] for this replica alone. If rated is false, it counts only
// concurrency.
func (l *limits) acquireHere(principal string, blocks []*config.Limit, rated bool) (c counted, err error) {
	now := time.Now()
	for _, block := range blocks {
		b := l.bucket(keyOf(block, principal))
		reservation, wait := b.acquire(now, rated)
		if wait > 0 { // undo the counting in the earlier blocks
			for _, a := range c {
				if a.reservation != nil {
					// Cancel at the time of the reservation: later, rate would count the token as
					// used.
					a.reservation.CancelAt(now)
				}
			}
			c.release()
			return nil, rateLimited(wait)
		}
		c = append(c, acquired{b, reservation})
	}
	return c, nil
}

// limitsRequests reports whether a block exists and limits requests, not only streams.
func limitsRequests(l *config.Limit) bool { return l != nil && (l.Rate > 0 || l.Concurrency > 0) }

func (l *limits) bucket(key bucketKey) *bucket {
	if b, ok := l.buckets.Get(key); ok {
		return b
	}
	b := &bucket{rate: rate.NewLimiter(rate.Inf, 0), concurrency: key.limit.Concurrency}
	if key.limit.Rate > 0 {
		b.rate = rate.NewLimiter(rate.Limit(key.limit.Rate), key.limit.Burst)
	}
	if earlier, ok, _ := l.buckets.PeekOrAdd(key, b); ok { // another goroutine was faster
		return earlier
	}
	return b
}

// acquire counts one request, or returns how long to wait. If rated is false, only the concurrency can
// make the request wait.
func (b *bucket) acquire(now time.Time, rated bool) (reservation *rate.Reservation, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.concurrency > 0 && b.inFlight >= b.concurrency {
		// Nothing tells when a request in flight will end, so the wait is a guess.
		return nil, defaultRetryMs * time.Millisecond
	}
	if rated {
		// Not AllowN, which does not return the wait.
		reservation = b.rate.ReserveN(now, 1)
		if wait := reservation.DelayFrom(now); wait > 0 {
			reservation.CancelAt(now)
			return nil, wait
		}
	}
	b.inFlight++
	return reservation, 0
}

// release ends one request.
func (b *bucket) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight--
}

// TooManyStreams returns the error for a principal that has as many streams as its limit allows.
func TooManyStreams() *wire.Error { return rateLimited(defaultRetryMs * time.Millisecond) }

// rateLimited returns the error for a request over a limit.
func rateLimited(wait time.Duration) *wire.Error {
	data := wire.Object{}.With("reason", wire.Quote(string(upstream.RateLimited))).
		With("retryAfterMs", wire.NumberID(max(1, (wait+time.Millisecond-1).Milliseconds())))
	return wire.NewError(wire.InternalError, "Too many requests: try again later").WithData(data.JSON())
}
