package cluster

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/promptweir/promptweir/config"
)

// While the store is away or late, each replica counts requests alone, so that a principal whose requests come to all of them may have as
// many times its rate. What was counted alone is a debt, which the replica pays as soon as the store answers, beside the requests' way: there
// it counts as of when it came. The answer is how long the principal has to wait now. So a rate holds on the whole although no request waits
// for a store that is late; and whoever stayed within it waits no longer than ever, also after the store was gone for long.

const (
	// maxDebt bounds how long a principal waits because of what was counted alone.
	maxDebt = 3 * time.Second
	// payInterval is how long a debt waits for others, to be paid with them.
	payInterval = 20 * time.Millisecond
	// maxDebtors bounds the limits of principals that have debts at a replica, and those that wait. Further ones do not.
	maxDebtors = 10_000
)

// debts are the requests that this replica has counted alone. Make it with newDebts.
type debts struct {
	// owing holds at most one mark: there may be some to pay.
	owing chan struct{}

	mu  sync.Mutex // guards what follows
	all map[debtor]*debt
	// until is until when debtors have to wait, as of when they paid last.
	until map[debtor]time.Time
}

// debtor is one principal under one limit, which is without its place and streams.
type debtor struct {
	principal string
	limit     config.Limit
}

// debt is how many requests were counted alone, since when. It is negative for those that the store has counted, and nobody else.
type debt struct {
	requests int
	since    time.Time
}

func newDebts() debts {
	return debts{owing: make(chan struct{}, 1), all: map[debtor]*debt{}, until: map[debtor]time.Time{}}
}

func debtorOf(principal string, limit *config.Limit) debtor {
	who := debtor{principal, *limit}
	who.limit.Place, who.limit.Streams = config.Place{}, 0
	return who
}

// CountedHere says that this replica has counted a request against limits, because [Store.Take] could not.
func (s *Store) CountedHere(principal string, limits []*config.Limit) {
	s.debts.add(principal, limits, 1)
}

// add adds requests to what is to be paid.
func (d *debts) add(principal string, limits []*config.Limit, requests int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range limits {
		if l.Rate <= 0 {
			continue
		}
		who := debtorOf(principal, l)
		one := d.all[who]
		if one == nil {
			if len(d.all) >= maxDebtors {
				continue
			}
			one = &debt{since: time.Now()}
			d.all[who] = one
		}
		one.requests += requests
	}
	d.mark()
}

func (d *debts) mark() {
	select {
	case d.owing <- struct{}{}:
	default:
	}
}

// take returns some debts that are to be paid; none if there are no more.
func (d *debts) take() map[debtor]debt {
	d.mu.Lock()
	defer d.mu.Unlock()
	some := map[debtor]debt{}
	for who, one := range d.all {
		if len(some) == maxBatch {
			break
		}
		delete(d.all, who)
		if one.requests != 0 {
			some[who] = *one
		}
	}
	return some
}

// wait returns how long a principal has to wait because of what was counted alone.
func (d *debts) wait(principal string, limits []*config.Limit) (wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.until) == 0 {
		return 0
	}
	for _, l := range limits {
		if until, ok := d.until[debtorOf(principal, l)]; ok {
			wait = max(wait, time.Until(until))
		}
	}
	return wait
}

// paid notes until when a debtor has to wait now.
func (d *debts) paid(who debtor, until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.until) >= maxDebtors {
		clear(d.until)
	}
	if delete(d.until, who); time.Until(until) > 0 {
		d.until[who] = until
	}
}

// payScript counts requests against the rate in KEYS[1], as takeScript does, although they are over it. It returns how long the next one
// has to wait. The rate is kept although the bucket may be full, since other replicas have counted at the same time.
//
//	ARGV  the interval between requests and the interval times the burst, how many there are, how long ago the first of them came, how
//	      long they make others wait at most, for how many milliseconds the rate is kept at least; times are in microseconds
//
//nolint:gochecknoglobals // a constant
var payScript = valkey.NewLuaScript(`
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local interval, burst, requests, age, most, kept = unpack(ARGV)
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now - age) + requests * interval
full = math.min(full, now + burst + most)
local ttl = math.min(math.max(math.ceil((full - now) / 1000) + 1, tonumber(kept)), 1e12)
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', string.format('%.0f', ttl))
return math.max(0, math.ceil(full + interval - burst - now))`)

// payDebts has the store count what was counted alone. What it is not known to have counted is forgotten.
func (s *Store) payDebts(ctx context.Context, client valkey.Client) error {
	for {
		some := s.debts.take()
		if len(some) == 0 {
			return nil
		}
		keys, now := s.keys.Load(), time.Now()
		debtors := slices.Collect(maps.Keys(some))
		execs := make([]valkey.LuaExec, len(debtors))
		for i, who := range debtors {
			rate, _ := keys.ofLimit(hash(keys.principal, who.principal), &who.limit)
			execs[i] = valkey.LuaExec{Keys: []string{rate}, Args: append(rateArgs(&who.limit), strconv.Itoa(some[who].requests),
				microseconds(now.Sub(some[who].since)), microseconds(maxDebt), strconv.FormatInt(2*maxDebt.Milliseconds(), 10))}
		}
		bound, cancel := context.WithTimeout(ctx, answerPatience)
		results := payScript.ExecMulti(bound, client, execs...)
		cancel()
		for i, result := range results {
			wait, err := result.AsInt64()
			if err != nil {
				return err
			}
			s.debts.paid(debtors[i], now.Add(time.Duration(wait)*time.Microsecond))
		}
	}
}
