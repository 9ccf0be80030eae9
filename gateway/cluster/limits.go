package cluster

import (
	"context"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/seal"
)

// Limits counts requests over all replicas. Its methods are safe for concurrent use.
type Limits struct{ store *store }

// countScript counts one request against all of the given rates, or against none. It returns 0, or the time
// to wait in microseconds, by the store's clock.
//
//	KEYS  the rates
//	ARGV  for each, the interval between requests, and the interval times the burst
//
// The value of a rate's key is the time at which the bucket will be full again (GCRA). A full bucket has no
// key: keys expire at that time. A value beyond the maximum dates from before the clock was set back, or from
// a former server whose clock was ahead. The script lowers it even if this request has to wait; otherwise all
// requests would wait until the clock catches up. string.format is needed because Lua drops digits of numbers
// with more than 14 digits.
//
//nolint:gochecknoglobals // a constant
var countScript = valkey.NewLuaScript(`
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local function keep(key, full)
	local ttl = math.min(math.ceil((full - now) / 1000) + 1, 1e12)
	redis.call('SET', key, string.format('%.0f', full), 'PX', string.format('%.0f', ttl))
end
local full = {}
for i = 1, #KEYS do
	local interval, burst = tonumber(ARGV[2*i-1]), tonumber(ARGV[2*i])
	local before, latest = tonumber(redis.call('GET', KEYS[i]) or 0), now + burst
	if before > latest then
		before = latest
		keep(KEYS[i], latest)
	end
	full[i] = math.max(before, now) + interval
	local wait = full[i] - burst - now
	if wait >= 1 then return math.ceil(wait) end
end
for i = 1, #KEYS do
	keep(KEYS[i], full[i])
end
return 0`)

// Acquire counts a request against the rates of all limits, or against none if the request has to wait; wait
// is then positive. principal is the principal's key. After [ErrUnavailable], the caller must count the
// request on this replica alone.
func (l *Limits) Acquire(principal string, limits []*config.Limit) (wait time.Duration, err error) {
	s := l.store
	client := s.get()
	if client == nil {
		return 0, ErrUnavailable
	}
	keys := s.keys.Load()
	hashed := hash(keys.principal, principal)
	names, args := make([]string, 0, len(limits)), make([]string, 0, 2*len(limits))
	for _, limit := range limits {
		// A limit without a rate bounds concurrency, which each replica counts alone.
		if limit.Rate > 0 {
			names = append(names, keys.ofLimit(hashed, limit))
			interval := 1e6 / limit.Rate
			args = append(args, decimal(interval), decimal(interval*float64(limit.Burst)))
		}
	}
	if len(names) == 0 {
		return 0, nil
	}
	waits := make(chan int64, 1) // buffered, because the result may come after the timeout
	err = s.do(func() error {
		// Do not use the request's context: a client that leaves must not look like a failing
		// store.
		n, err := countScript.Exec(context.Background(), client, names, args).AsInt64()
		waits <- n
		return err
	})
	if err != nil {
		return 0, ErrUnavailable
	}
	return time.Duration(<-waits) * time.Microsecond, nil
}

func decimal(n float64) string { return strconv.FormatFloat(n, 'f', 3, 64) }

// keys derives the names of keys in the store by keyed hashes.
type keys struct {
	principal, limits *seal.MAC
	// probe is the key that probes write.
	probe string
}

// hash returns 128 bits of a keyed hash, in hexadecimal digits.
func hash(m *seal.MAC, value string) string {
	return string(m.AppendHex(make([]byte, 0, 64), []byte(value))[:32])
}

// ofLimit returns the key for one principal and one limit.
func (k *keys) ofLimit(principal string, l *config.Limit) string {
	// All keys of a principal share a hash tag, which puts them on one node of a Redis Cluster: one script
	// can then use them all. The id contains the limit's rate, burst and labels, but no line number, so
	// counts survive a reload that moves the block.
	id := make([]byte, 0, 64)
	id = strconv.AppendFloat(id, l.Rate, 'g', -1, 64)
	id = strconv.AppendInt(append(id, ' '), int64(l.Burst), 10)
	id = append(append(id, ' '), l.Block...)
	return "promptweir:{" + principal + "}:" + hash(k.limits, string(id))
}
