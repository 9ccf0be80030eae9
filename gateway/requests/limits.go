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

// maxBuckets bounds the buckets that are kept, to the most recently used. A principal that comes
// back after 10 000 others starts with a full bucket.
const maxBuckets = 10_000

// SharedLimits count requests over all replicas of the gateway.
type SharedLimits interface {
	// Acquire counts a request of a principal, which is given by its key, against the rate of each of
	// the limits, or against none of them if it has to wait. It must not take long. An error means
	// that the replicas cannot count together now. Limits must not be changed after it.
	Acquire(principal string, limits []*config.Limit) (wait time.Duration, err error)
}

// limits count each principal's requests against limit blocks.
type limits struct {
	shared  SharedLimits // nil where there are no replicas
	buckets *lru.Cache[bucketKey, *bucket]
}

// bucketKey is one principal under one limit block.
type bucketKey struct {
	// limit is without its source location and streams, so that a bucket survives a reload that
	// moves its block within a file.
	limit     config.Limit
	principal string
}

func keyOf(limit *config.Limit, principal string) bucketKey {
	key := bucketKey{*limit, principal}
	key.limit.Place, key.limit.Streams = config.Place{}, 0
	return key
}

// bucket is what one principal has left of one limit.
type bucket struct {
	rate        *rate.Limiter
	concurrency int // 0 is no bound

	mu       sync.Mutex // guards inFlight
	inFlight int
}

func newLimits(shared SharedLimits) *limits {
	buckets, _ := lru.New[bucketKey, *bucket](maxBuckets) // an error is for a size below one
	return &limits{shared, buckets}
}

// counted is a request that limits count. The zero value is one that no limit counts.
type counted struct{ by []acquired }

// acquired is what a request has of a bucket. The reservation is nil where its rate does not count.
type acquired struct {
	bucket      *bucket
	reservation *rate.Reservation
}

// end ends the request here, once its response is written. Calling it again does nothing.
func (c *counted) end() {
	for _, a := range c.by {
		a.bucket.release()
	}
	c.by = nil
}

// acquire counts a request against each limit that is not nil, or against none of them if one is
// used up. With replicas, rates hold over all of them; those in flight are counted here alone.
func (l *limits) acquire(principal *policy.Principal, blocks ...*config.Limit) (counted, error) {
	if !slices.ContainsFunc(blocks, limitsRequests) {
		return counted{}, nil
	}
	key := principal.Key()
	blocks = slices.DeleteFunc(blocks, func(block *config.Limit) bool { return !limitsRequests(block) })
	if l.shared == nil {
		return l.acquireHere(key, blocks, true)
	}
	// Requests in flight are counted first: what the store has counted against a rate cannot be
	// taken back.
	c, err := l.acquireHere(key, blocks, false)
	if err != nil {
		return counted{}, err
	}
	// A clone, so that the blocks of requests without shared limits stay on the stack.
	wait, err := l.shared.Acquire(key, slices.Clone(blocks))
	switch {
	case err != nil:
		// First, or the request would be in flight twice.
		c.end()
		return l.acquireHere(key, blocks, true)
	case wait > 0:
		c.end()
		return counted{}, rateLimited(wait)
	}
	return c, nil
}

// acquireHere is acquire for this replica alone. If not rated, only requests in flight count.
func (l *limits) acquireHere(principal string, blocks []*config.Limit, rated bool) (c counted, err error) {
	now := time.Now()
	for _, block := range blocks {
		b := l.bucket(keyOf(block, principal))
		reservation, wait := b.acquire(now, rated)
		if wait > 0 { // then it is as if there had been no request
			for _, a := range c.by {
				if a.reservation != nil {
					// At the time of the reservation: later, rate would keep the token as used.
					a.reservation.CancelAt(now)
				}
			}
			c.end()
			return counted{}, rateLimited(wait)
		}
		c.by = append(c.by, acquired{b, reservation})
	}
	return c, nil
}

// limitsRequests reports whether a block is there and limits more than streams.
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

// acquire counts one request, or returns how long to wait. If not rated, only the number in flight
// bounds it.
func (b *bucket) acquire(now time.Time, rated bool) (reservation *rate.Reservation, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.concurrency > 0 && b.inFlight >= b.concurrency {
		// Nobody knows when a request in flight ends.
		return nil, defaultRetryMs * time.Millisecond
	}
	if rated {
		// AllowN would not say how long to wait.
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

// rateLimited returns the error of a request over a limit.
func rateLimited(wait time.Duration) *wire.Error {
	data := wire.Object{}.With("reason", wire.Quote(string(upstream.RateLimited))).
		With("retryAfterMs", wire.NumberID(max(1, (wait+time.Millisecond-1).Milliseconds())))
	return wire.NewError(wire.InternalError, "Too many requests: try again later").WithData(data.JSON())
}
