package cluster

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"
)

const (
	// renewInterval is how often leases are renewed: thrice before they end.
	renewInterval = leaseTime / 3
	// maxBatch bounds the leases that are renewed at once, or given back.
	maxBatch = 256
	// maxOwed bounds the leases that wait for the store to be given back. Further ones end by themselves.
	maxOwed = 10_000
)

// lease is the places of one request, by the keys of the limits.
type lease struct {
	name   string
	places []string
	taken  time.Time
}

// leases are those of the requests in flight here. Owing must be made.
type leases struct {
	count atomic.Uint64 // of all, for their names

	mu   sync.Mutex // guards what follows
	held map[*lease]struct{}
	// owed are those that have ended here, and may be in the store still: it was away, or late.
	owed []*lease
	// owing holds at most one mark: there is another one.
	owing chan struct{}
}

// name returns that of a new lease.
func (l *leases) name(replica string) string {
	return replica + "." + strconv.FormatUint(l.count.Add(1), 36)
}

func (l *leases) add(one *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = map[*lease]struct{}{}
	}
	l.held[one] = struct{}{}
}

func (l *leases) remove(one *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, one)
}

// owe has a lease given back later, if it has places.
func (l *leases) owe(one *lease) {
	if len(one.places) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.owed) < maxOwed {
		l.owed = append(l.owed, one)
	}
	select {
	case l.owing <- struct{}{}:
	default:
	}
}

// oweEnded has those leases given back that have ended here.
func (l *leases) oweEnded(some []*lease) {
	for _, one := range some {
		l.mu.Lock()
		_, isHeld := l.held[one]
		l.mu.Unlock()
		if !isHeld {
			l.owe(one)
		}
	}
}

// takeOwed returns some leases that are to be given back; none if there are no more.
func (l *leases) takeOwed() []*lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.owed), maxBatch)
	some := l.owed[:n:n]
	if l.owed = l.owed[n:]; len(l.owed) == 0 {
		l.owed = nil
	}
	return some
}

// due returns the leases that have to be renewed.
func (l *leases) due(now time.Time) (due []*lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for one := range l.held {
		if now.Sub(one.taken) >= renewInterval {
			due = append(due, one)
		}
	}
	return due
}

// release gives a lease back. It waits until that is done, so that the client's next request, at whichever replica, finds the place
// free; where that fails, the lease is given back later.
func (s *Store) release(one *lease) {
	s.leases.remove(one)
	here := s.here.Load()
	if here == nil || s.doubted.Load() {
		s.leases.owe(one)
		return
	}
	err := within(patience, func() error { return giveBack(context.Background(), here.client, one) })
	s.done(here, err)
	if err != nil {
		s.leases.owe(one)
	}
}

func giveBack(ctx context.Context, client valkey.Client, all ...*lease) error {
	commands := make(valkey.Commands, 0, len(all))
	for _, one := range all {
		for _, places := range one.places {
			commands = append(commands, client.B().Zrem().Key(places).Member(one.name).Build())
		}
	}
	for _, result := range client.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			return err
		}
	}
	return nil
}

// giveBackOwed gives back the leases that could not be given back when they ended.
func (s *Store) giveBackOwed(ctx context.Context) {
	for here := s.here.Load(); here != nil; here = s.here.Load() {
		some := s.leases.takeOwed()
		if len(some) == 0 {
			return
		}
		bound, cancel := context.WithTimeout(ctx, answerPatience)
		err := giveBack(bound, here.client, some...)
		cancel()
		if err == nil {
			continue
		}
		for _, one := range some {
			s.leases.owe(one)
		}
		if ctx.Err() == nil {
			s.fail(here, err)
		}
		return
	}
}

// renewScript renews the lease with the name and time in ARGV in each of KEYS, also where it is no longer: the store may have lost it, or its
// replica was stopped for longer than that.
//
//nolint:gochecknoglobals // a constant
var renewScript = valkey.NewLuaScript(`
local t = redis.call('TIME')
for _, key in ipairs(KEYS) do
	redis.call('ZADD', key, string.format('%.0f', t[1] * 1000000 + t[2] + ARGV[2]), ARGV[1])
	redis.call('PEXPIRE', key, string.format('%.0f', ARGV[2] / 1000))
end
return 0`)

// renewLeases renews the leases of long requests, gives back those that are owed, and pays debts, until ctx ends.
func (s *Store) renewLeases(ctx context.Context) {
	ticker := time.NewTicker(renewInterval)
	defer ticker.Stop()
	for {
		s.mu.Lock()
		used := s.used
		s.mu.Unlock()
		select {
		case now := <-ticker.C:
			s.renew(ctx, s.leases.due(now))
		case <-used: // the store is here again
		case <-s.leases.owing:
		case <-s.debts.owing:
			if !sleep(ctx, payInterval) {
				return
			}
		case <-ctx.Done():
			return
		}
		s.giveBackOwed(ctx)
		if here := s.here.Load(); here != nil && !s.doubted.Load() { // otherwise keep does
			s.check(ctx, here, s.payDebts(ctx, here.client))
		}
	}
}

func (s *Store) renew(ctx context.Context, due []*lease) {
	here := s.here.Load()
	if here == nil {
		return
	}
	for len(due) > 0 {
		batch := due[:min(len(due), maxBatch)]
		due = due[len(batch):]
		execs := make([]valkey.LuaExec, len(batch))
		for i, one := range batch {
			execs[i] = valkey.LuaExec{Keys: one.places, Args: []string{one.name, microseconds(leaseTime)}}
		}
		bound, cancel := context.WithTimeout(ctx, answerPatience)
		results := renewScript.ExecMulti(bound, here.client, execs...)
		cancel()
		s.leases.oweEnded(batch) // those that were given back meanwhile have come back
		for _, result := range results {
			if err := result.Error(); err != nil {
				if ctx.Err() == nil {
					s.fail(here, err)
				}
				return
			}
		}
	}
}
