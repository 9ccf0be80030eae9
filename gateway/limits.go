package gateway

import (
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxBuckets bounds the principals whose use of a limit is remembered, those heard of last. Whoever comes back after
// 10 000 others begins anew.
const maxBuckets = 10_000

// limits count what each principal asks for.
type limits struct {
	buckets *lru.Cache[bucketKey, *bucket]
}

// bucketKey is one principal under one limit block.
type bucketKey struct {
	// limit is without its place, so that what a reload leaves as it is, or only moves in a file, goes on.
	limit     config.Limit
	principal string
}

func keyOf(limit *config.Limit, principal string) bucketKey {
	key := bucketKey{*limit, principal}
	key.limit.Place = config.Place{}
	return key
}

// bucket is what one principal has left of one limit.
type bucket struct {
	rate *rate.Limiter
	most int // at the same time; 0 is no bound

	mu       sync.Mutex // guards inFlight
	inFlight int
}

func newLimits() (*limits, error) {
	buckets, err := lru.New[bucketKey, *bucket](maxBuckets)
	return &limits{buckets}, err
}

// begin counts a request against each limit that there is, or against none of them where one is used up. What it returns
// is to be called when the request is over.
func (l *limits) begin(who *policy.Principal, blocks ...*config.Limit) (end func(), err error) {
	if !slices.ContainsFunc(blocks, func(l *config.Limit) bool { return l != nil }) {
		return func() {}, nil
	}
	now, principal := time.Now(), who.Key()
	var held []func()
	var undo []func()
	for _, block := range blocks {
		if block == nil {
			continue
		}
		b := l.bucket(keyOf(block, principal))
		cancel, wait := b.take(now)
		if wait > 0 {
			for _, cancel := range undo {
				cancel()
			}
			return nil, rateLimited(wait)
		}
		held, undo = append(held, b.release), append(undo, cancel)
	}
	return func() {
		for _, release := range held {
			release()
		}
	}, nil
}

func (l *limits) bucket(key bucketKey) *bucket {
	if b, ok := l.buckets.Get(key); ok {
		return b
	}
	b := &bucket{rate: rate.NewLimiter(rate.Inf, 0), most: key.limit.Concurrency}
	if key.limit.Rate > 0 {
		b.rate = rate.NewLimiter(rate.Limit(key.limit.Rate), key.limit.Burst)
	}
	if earlier, ok, _ := l.buckets.PeekOrAdd(key, b); ok { // somebody else was faster
		return earlier
	}
	return b
}

// take counts one request, or says how long to wait.
func (b *bucket) take(now time.Time) (cancel func(), wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.most > 0 && b.inFlight >= b.most {
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

func (b *bucket) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight--
}

// rateLimited is the answer to a request over a limit.
func rateLimited(wait time.Duration) *wire.Error {
	data := wire.Object{}.With("reason", wire.Quote("rate_limited")).
		With("retryAfterMs", wire.NumberID(max(1, (wait+time.Millisecond-1).Milliseconds())))
	return wire.NewError(wire.InternalError, "Too many requests: try again later").WithData(data.JSON())
}

// limited counts a request for an entry that its caller sees.
func (g *Gateway) limited(r *request, e *edition, audience *policy.Audience, entry *catalog.Entry) (end func(), err error) {
	visibility, _ := entry.Tag.(*policy.Visibility)
	return g.limits.begin(&r.principal, e.cfg.Gateway.Limit, e.teamLimits[entry.Team], audience.Limit(visibility))
}
