package cluster

import (
	"context"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/promptweir/promptweir/config"
)

// leaseTime is how long a place in a concurrency limit is taken without being renewed: that of a replica that died is free
// after it.
const leaseTime = 15 * time.Second

// takeScript counts one request against each of some limits, or against none, by the store's clock, in microseconds. It returns
// 0, or how long to wait.
//
//	KEYS  for each limit, its rate and its places
//	ARGV  the lease's name and time; for each limit, the interval between requests and the interval times the burst, 0 without
//	      a rate, and the places, 0 without concurrency
//
// A rate is one number, the time at which the bucket will be full again (GCRA): a bucket that was never used has none, and expires
// when it is full. Places are a sorted set of leases by the time at which they end. What is later than it can be was written before the
// clock was set back, or by a server whose clock was ahead of the one that has taken its place: it becomes as late as it can be.
//
//nolint:gochecknoglobals // a constant
var takeScript = valkey.NewLuaScript(`
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local full = {}
for i = 1, #KEYS / 2 do
	local interval, burst, places = tonumber(ARGV[3*i]), tonumber(ARGV[3*i+1]), tonumber(ARGV[3*i+2])
	if places > 0 then
		redis.call('ZREMRANGEBYSCORE', KEYS[2*i], '-inf', string.format('%.0f', now))
		if redis.call('ZCARD', KEYS[2*i]) >= places then
			local latest = string.format('%.0f', now + ARGV[2])
			for _, lease in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2*i], '(' .. latest, '+inf')) do
				redis.call('ZADD', KEYS[2*i], latest, lease)
			end
			return ` + concurrencyWait + `
		end
	end
	if interval > 0 then
		local before, latest = tonumber(redis.call('GET', KEYS[2*i-1]) or 0), now + burst + ` + maxDebtMicros + `
		if before > latest then
			before = latest
			redis.call('SET', KEYS[2*i-1], string.format('%.0f', before), 'PX', string.format('%.0f', math.min((before - now) / 1000 + 1, 1e12)))
		end
		full[i] = math.max(before, now) + interval
		local wait = full[i] - burst - now
		if wait >= 1 then return math.ceil(wait) end
	end
end
for i = 1, #KEYS / 2 do
	if full[i] then
		local ttl = math.min(math.ceil((full[i] - now) / 1000) + 1, 1e12)
		redis.call('SET', KEYS[2*i-1], string.format('%.0f', full[i]), 'PX', string.format('%.0f', ttl))
	end
	if tonumber(ARGV[3*i+2]) > 0 then
		redis.call('ZADD', KEYS[2*i], string.format('%.0f', now + ARGV[2]), ARGV[1])
		redis.call('PEXPIRE', KEYS[2*i], string.format('%.0f', ARGV[2] / 1000))
	end
end
return 0`)

// concurrencyWait is what a request waits for whose principal has no place, in microseconds.
const concurrencyWait = "1000000"

// maxDebtMicros is maxDebt in a script.
const maxDebtMicros = "3000000"

// Take counts a request of a principal, which is given by its key, against each of the limits, over all replicas, or against none
// of them if it has to wait. Release, which may be nil, gives its places back. An error means that the store is away, or late, and
// that the principal does not have to wait as far as is known: whoever counts the request alone then says so by [Store.CountedHere].
func (s *Store) Take(principal string, limits []*config.Limit) (release func(), wait time.Duration, err error) {
	here := s.here.Load()
	if here == nil || s.doubted.Load() {
		if wait := s.debts.wait(principal, limits); wait > 0 {
			return nil, wait, nil
		}
		return nil, 0, ErrAway
	}
	keys := s.keys.Load()
	hashed := hash(keys.principal, principal)
	lease := &lease{name: s.leases.name(s.replica), taken: time.Now()}
	names := make([]string, 0, 2*len(limits))
	args := make([]string, 0, 2+3*len(limits))
	args = append(args, lease.name, microseconds(leaseTime))
	for _, l := range limits {
		rate, places := keys.ofLimit(hashed, l)
		names = append(names, rate, places)
		args = append(append(args, rateArgs(l)...), strconv.Itoa(l.Concurrency))
		if l.Concurrency > 0 {
			lease.places = append(lease.places, places)
		}
	}
	answers := make(chan taken, 1)
	go func() { // see within; a client that goes must not look like a store that is away
		n, err := takeScript.Exec(context.Background(), here.client, names, args).AsInt64()
		answers <- taken{time.Duration(n) * time.Microsecond, err}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var answer taken
	select {
	case answer = <-answers:
	case <-timer.C:
		s.doubt()
		s.leases.owe(lease) // the store may take it yet, and hears this next
		go func() { s.takenLate(principal, limits, lease, <-answers) }()
		return nil, 0, ErrAway
	}
	switch {
	case answer.err != nil:
		s.fail(here, answer.err)
		s.leases.owe(lease) // the store may have taken it
		return nil, 0, ErrAway
	case answer.wait > 0:
		return nil, answer.wait, nil
	case len(lease.places) == 0:
		return nil, 0, nil
	}
	s.leases.add(lease)
	return func() { s.release(lease) }, 0, nil
}

// taken is what the store answers to a request: how long to wait, 0 if it is counted.
type taken struct {
	wait time.Duration
	err  error
}

// takenLate undoes what the store has done about a request that did not wait for it.
func (s *Store) takenLate(principal string, limits []*config.Limit, lease *lease, answer taken) {
	s.leases.owe(lease) // again: only now it is sure to have been taken before
	if answer.err == nil && answer.wait == 0 {
		s.debts.add(principal, limits, -1)
	}
}

// rateArgs returns the interval of a rate and how much earlier than that the requests of its burst may come, in microseconds.
func rateArgs(l *config.Limit) []string {
	if l.Rate <= 0 {
		return []string{"0", "0"}
	}
	interval := 1e6 / l.Rate
	return []string{strconv.FormatFloat(interval, 'f', 3, 64), strconv.FormatFloat(interval*float64(l.Burst), 'f', 3, 64)}
}

func microseconds(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }
