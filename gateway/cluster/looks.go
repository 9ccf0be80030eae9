package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"
)

// A watch that another replica holds has nothing to attend for while nothing happens. What happens stands in an index, which each replica looks
// at once a second, however many watches it has: which leases are held, and which have ended or have something new since its last look.
// The index is a hint. It is told after what it is about, and who holds a lease and what its list is, only the lease says.
//
//	holds leases ── look: these are held ─────────────▶ ┌───────┐
//	puts a list ─── note: there is something new ─────▶ │ index │
//	others ──────── look ─ what is new, what has ended ─ └───────┘ ──▶ wakes the watches that it is about
//
// Messages do the same at once, but may be lost.

const (
	// lookInterval is how often a replica looks. After as long as blindTime without an answer it does not know what happens, so that its
	// watches attend for themselves.
	lookInterval, blindTime = time.Second, 4 * time.Second
	// rareTime is how long a watch does not attend, on average, whose lease is in the index: in case that something was overlooked.
	rareTime = 5 * time.Minute
	// endedSpread and allSpread are within which time watches are woken whose leases have ended, and all: the store answers others in between.
	endedSpread, allSpread = time.Second, 4 * time.Second
	// maxLooked bounds the leases of one script: of those that are held here, doubted or have ended. maxNoted is how many changes the index has.
	maxLooked, maxNoted = 1000, 10_000
)

// watched is what a replica knows of one lease.
type watched struct {
	watches map[*Watch]struct{}
	// noted is the last change that is known, by its place in the index.
	noted uint64
	// indexed says that the lease is in the index, so that the next look after its end says so. Doubted says that a watch wants to know.
	indexed, doubted bool
}

// lookScript says which leases are held, takes those out of the index that have ended, and returns what the index is called, the place of the last
// change, and of each lease that has changed, or is doubted and in the index, its name, the place of the change or 0, and whether it is in the index.
//
//	KEYS  leases by when they end, leases by the place of their last change, the index's name and the place of the last change
//	ARGV  the name that is known, and the place up to which changes are; a name for an index without one; for how many milliseconds the
//	      index is kept; how many changes it has at most; how many leases are held; for each its name and how long it lasts; those doubted
//
//nolint:gochecknoglobals // a constant
var lookScript = valkey.NewLuaScript(`
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local name = redis.call('HGET', KEYS[3], 'name')
if not name then
	name = ARGV[3]
	redis.call('HSET', KEYS[3], 'name', name)
end
local next = 7 + 2 * ARGV[6]
for i = 7, next - 2, 2 do
	redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[i + 1]), ARGV[i])
end
for _, lease in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now), 'LIMIT', 0, ` + maxEnded + `)) do
	redis.call('ZREM', KEYS[1], lease)
	redis.call('ZADD', KEYS[2], redis.call('HINCRBY', KEYS[3], 'place', 1), lease)
end
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1 - ARGV[5])
for i = 1, 3 do redis.call('PEXPIRE', KEYS[i], ARGV[4]) end
local answer = {name, redis.call('HGET', KEYS[3], 'place') or '0'}
local function add(lease, place)
	local ends = tonumber(redis.call('ZSCORE', KEYS[1], lease) or 0)
	local indexed = ends > 0 and ends < now + 1e7 and '1' or '0' -- not if the clock was set back
	if indexed == '1' or place ~= '0' then
		answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = lease, place, indexed
	end
end
if name == ARGV[1] then
	local changed = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. ARGV[2], '+inf', 'WITHSCORES')
	for i = 1, #changed, 2 do add(changed[i], changed[i + 1]) end
end
for i = next, #ARGV do add(ARGV[i], '0') end
return answer`)

// maxEnded is maxLooked in a script.
const maxEnded = "1000"

// noteScript notes a change of the lease ARGV[1], which has ended if ARGV[2] is 1, in the index of lookScript, and returns its place.
//
//nolint:gochecknoglobals // a constant
var noteScript = valkey.NewLuaScript(`
if ARGV[2] == '1' then redis.call('ZREM', KEYS[1], ARGV[1]) end
local place = redis.call('HINCRBY', KEYS[3], 'place', 1)
redis.call('ZADD', KEYS[2], place, ARGV[1])
for i = 2, 3 do redis.call('PEXPIRE', KEYS[i], ARGV[3]) end
return place`)

// position is up to where a replica has read an index, and how often the store had been lost before.
type position struct {
	keys   *keys
	losses uint64
	name   string
	place  uint64
}

// look looks at the index every second, until ctx ends.
func (s *Store) look(ctx context.Context) {
	if !s.sharesWatch {
		return
	}
	var at position
	seen, blind := time.Now(), true
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		switch err := s.lookOnce(ctx, &at); {
		case err == nil:
			seen, blind = time.Now(), false
		case !blind && time.Since(seen) >= blindTime:
			at, blind = position{}, true
			s.watches.wakeAll(s.blindSpread())
		case !errors.Is(err, ErrAway) && !errors.Is(err, errLate) && !errors.Is(err, context.DeadlineExceeded): // it may be another server's now
			at = position{}
		}
	}
}

// blindSpread returns within which time watches attend for themselves: soon where they only learn that the store is away, and otherwise
// without a burst, since it may be late because it has much to do.
func (s *Store) blindSpread() time.Duration {
	if s.here.Load() == nil {
		return endedSpread
	}
	return allSpread
}

// lookOnce has the watches woken for which there is something new since a position, which it moves.
func (s *Store) lookOnce(ctx context.Context, at *position) error {
	held, doubted := s.watches.toLookFor(time.Now())
	for first := true; first || len(held) > 0 || len(doubted) > 0; first = false {
		h, d := min(len(held), maxLooked), min(len(doubted), maxLooked)
		if err := s.lookFor(ctx, at, held[:h], doubted[:d]); err != nil {
			return err
		}
		held, doubted = held[h:], doubted[d:]
	}
	return nil
}

// lookFor looks once, with some of the leases that are held here, or doubted.
func (s *Store) lookFor(ctx context.Context, at *position, held []heldLease, doubted []string) error {
	here, keys, losses := s.here.Load(), s.keys.Load(), s.losses.Load()
	if here == nil {
		return ErrAway
	}
	args := make([]string, 0, 6+2*len(held)+len(doubted))
	args = append(args, at.name, strconv.FormatUint(at.place, 10), rand.Text(), watchLife, strconv.Itoa(maxNoted), strconv.Itoa(len(held)))
	for _, one := range held {
		args = append(args, one.name, microseconds(one.left))
	}
	args = append(args, doubted...)
	var answer []string // not read once it is late
	err := within(answerPatience, func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, answerPatience)
		defer cancel()
		answer, err = lookScript.Exec(ctx, here.beside, keys.index[:], args).AsStrSlice()
		return err
	})
	if err != nil {
		return err
	}
	name, place, found, err := readLook(answer)
	if err != nil {
		return err
	}
	isKnown := at.keys == keys && at.losses == losses && at.name == name && at.place <= place && place-at.place < maxNoted
	*at = position{keys, losses, name, place}
	if !isKnown {
		s.watches.wakeAll(allSpread)
	}
	s.watches.found(found)
	return nil
}

// finding is what a look says of one lease. Place is 0 where it has not changed.
type finding struct {
	lease   string
	place   uint64
	indexed bool
}

func readLook(answer []string) (name string, place uint64, found []finding, err error) {
	if len(answer) < 2 || len(answer)%3 != 2 {
		return "", 0, nil, errNoTurn
	}
	if place, err = strconv.ParseUint(answer[1], 10, 64); err != nil {
		return "", 0, nil, errNoTurn
	}
	for rest := answer[2:]; len(rest) > 0; rest = rest[3:] {
		one := finding{lease: rest[0], indexed: rest[2] == "1"}
		if one.place, err = strconv.ParseUint(rest[1], 10, 64); err != nil {
			return "", 0, nil, errNoTurn
		}
		found = append(found, one)
	}
	return answer[0], place, found, nil
}

// heldLease is a lease that is held here, and how long it lasts.
type heldLease struct {
	name string
	left time.Duration
}

// toLookFor returns the leases that are held here, and those that watches want to know of.
func (all *watches) toLookFor(now time.Time) (held []heldLease, doubted []string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for name, one := range all.byName {
		for w := range one.watches {
			if left := w.holdsUntil().Sub(now); left > 0 {
				held = append(held, heldLease{name, min(left, watchTime)})
			}
		}
		if one.doubted {
			one.doubted = false
			doubted = append(doubted, name)
		}
	}
	return held, doubted
}

// found wakes the watches whose leases have changed. Those of leases that have ended are woken one after another.
func (all *watches) found(some []finding) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, f := range some {
		one := all.byName[f.lease]
		if one == nil {
			continue
		}
		one.indexed = f.indexed
		if f.place <= one.noted {
			continue // a message was faster
		}
		one.noted = f.place
		for w := range one.watches {
			if f.indexed {
				w.wake()
			} else {
				w.wakeWithin(endedSpread)
			}
		}
	}
}

// wakeAll wakes all watches within a time: nothing is known of their leases.
func (all *watches) wakeAll(spread time.Duration) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, one := range all.byName {
		one.indexed, one.doubted, one.noted = false, false, 0
		for w := range one.watches {
			w.wakeWithin(spread)
		}
	}
}

// isIndexed reports whether a lease is in the index, which the next look finds out if that is not known.
func (all *watches) isIndexed(name string) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	one := all.byName[name]
	if one == nil {
		return false
	}
	one.doubted = !one.indexed
	return one.indexed
}

// wake has a watch attend.
func (w *Watch) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// wakeWithin wakes a watch at some moment within a time.
func (w *Watch) wakeWithin(d time.Duration) {
	time.AfterFunc(mathrand.N(d), w.wake) //nolint:gosec // it need not be unknown
}

// note notes a change of a lease, and returns its place in the index; 0 if that failed: then whoever holds it does so when it attends.
func (w *Watch) note(ctx context.Context, here *connected, wanted *wanted, ended bool) (place uint64) {
	is := "0"
	if ended {
		is = "1"
	}
	n, err := noteScript.Exec(ctx, here.beside, wanted.keys.index[:], []string{wanted.name, is, watchLife}).AsInt64()
	w.unnoted.Store(err != nil)
	if err != nil || n < 0 {
		return 0
	}
	return uint64(n)
}

// change is what a message says: something is new about a lease, or it has ended. Place is that of the change in the index; 0 if that is not
// known.
type change struct {
	lease string
	place uint64
	ended bool
}

func (c change) encode() []byte { return fmt.Appendf(nil, "%s %d %t", c.lease, c.place, c.ended) }

// hear wakes the watches that a message is about.
func (all *watches) hear(message []byte) {
	var c change
	if _, err := fmt.Sscanf(string(message), "%s %d %t", &c.lease, &c.place, &c.ended); err == nil {
		all.wake(c, nil)
	}
}
