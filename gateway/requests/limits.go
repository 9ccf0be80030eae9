package requests

import (
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxBuckets bounds the buckets that are kept, to the most recently used. A principal that comes back after 10 000 others
// starts with a full bucket.
const maxBuckets = 10_000

// limits count each principal's requests against limit blocks.
type limits struct {
	buckets *lru.Cache[bucketKey, *bucket]
}

// bucketKey is one principal under one limit block.
type bucketKey struct {
	// limit is without its place and streams, so that a bucket survives a reload that moves its block within a file.
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

func newLimits() *limits {
	buckets, err := lru.New[bucketKey, *bucket](maxBuckets)
	if err != nil {
		panic(err) // only for a size below one
	}
	return &limits{buckets}
}

// acquire counts a request against each limit that is not nil, or against none of them if one is used up. Release must
// be called when the response is written; it is nil where there is no limit.
func (l *limits) acquire(principal *policy.Principal, blocks ...*config.Limit) (release func(), err error) {
	if !slices.ContainsFunc(blocks, limitsRequests) {
		return nil, nil
	}
	now, key := time.Now(), principal.Key()
	var releases, cancels []func()
	for _, block := range blocks {
		if !limitsRequests(block) {
			continue
		}
		b := l.bucket(keyOf(block, key))
		cancel, wait := b.take(now)
		if wait > 0 {
			for _, cancel := range cancels {
				cancel()
			}
			return nil, rateLimited(wait)
		}
		releases, cancels = append(releases, b.release), append(cancels, cancel)
	}
	return func() {
		for _, release := range releases {
			release()
		}
	}, nil
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

// take counts one request, or returns how long to wait. Cancel undoes it as if there had been no request.
func (b *bucket) take(now time.Time) (cancel func(), wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.concurrency > 0 && b.inFlight >= b.concurrency {
		return nil, defaultRetryMs * time.Millisecond
	}
	reservation := b.rate.ReserveN(now, 1)
	if wait := reservation.DelayFrom(now); wait > 0 {
		reservation.CancelAt(now)
		return nil, wait
	}
	b.inFlight++
	return func() {
		reservation.CancelAt(now)
		b.release()
	}, 0
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
	data := wire.Object{}.With("reason", wire.Quote("rate_limited")).
		With("retryAfterMs", wire.NumberID(max(1, (wait+time.Millisecond-1).Milliseconds())))
	return wire.NewError(wire.InternalError, "Too many requests: try again later").WithData(data.JSON())
}
