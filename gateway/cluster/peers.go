package cluster

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/valkey-io/valkey-go"
)

const (
	// heartbeatInterval is how often a replica says that it is alive, and minHeartbeat how soon
	// again where something has changed.
	heartbeatInterval, minHeartbeat = time.Second, 10 * time.Millisecond
	// aliveFor is how long a replica is alive after a heartbeat, by the store's clock, and freshFor
	// how long it may rely on that, by its own.
	aliveFor, freshFor = 6 * time.Second, 5 * time.Second
	// compareTimeout bounds the wait of a list of a replica that was not alive.
	compareTimeout = time.Second
	// maxRecord bounds the record of another replica, sealed, in bytes.
	maxRecord = 16 << 20
	// topicHeartbeat is that of the hint that something has changed.
	topicHeartbeat = "heartbeat"
)

// Options say what the gateway does with what [Peers] know. None may block. Drain is called with
// the lock of Peers held, so that it must not call their methods.
type Options struct {
	// Notify has listeners notified, without waiting for them.
	Notify func(Verdict)
	// Drain does what operators have done last, at whichever replica.
	Drain func(map[string]Drain)
	// IsReady reports whether clients may come to this replica: before that it is not alive.
	IsReady func() bool
	// IsAlone is set where no client of another replica comes to this one, as over stdio. Then no
	// change waits for it; drains reach it all the same.
	IsAlone bool
}

// Peers are the live replicas, and which lists they serve. Its methods are safe for concurrent use.
type Peers struct {
	store    *store
	messages *Messages
	opts     Options
	wake     chan struct{}
	// comparedAt is when the last heartbeat began after which all was compared, in nanoseconds
	// since 1970; 0 before the first.
	comparedAt atomic.Int64
	joined     atomic.Bool

	mu         sync.Mutex // guards what follows
	settlement *settlement
	drains     map[string]Drain
	// meanwhile are the lists that changed since the last heartbeat.
	meanwhile map[string]bool

	// The rest belongs to run.

	written string // the digest of the record that the store has
	// away says that this replica may not have been alive, and has not said yet where it was
	// behind.
	away    bool
	records map[string]peerKey // what is known of others, by name
}

// peerKey is the record of another replica, and its digest.
type peerKey struct {
	digest string
	record record
}

func newPeers(s *store, m *Messages, opts Options) *Peers {
	p := &Peers{
		store: s, messages: m, opts: opts, wake: make(chan struct{}, 1), settlement: newSettlement(),
		drains: map[string]Drain{}, meanwhile: map[string]bool{}, records: map[string]peerKey{},
	}
	if opts.IsReady == nil { // then this replica is none that clients come to
		p.opts.IsReady = func() bool { return false }
		p.opts.Notify, p.opts.Drain = func(Verdict) {}, func(map[string]Drain) {}
	}
	m.Handle(topicHeartbeat, func(context.Context, Read) any { p.beatSoon(); return nil })
	return p
}

func (p *Peers) beatSoon() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Changed notes digests of lists that a snapshot serves from now on, by the upstream's label;
// the empty label is that of the configuration. An upstream that is gone, or has shown nothing yet,
// has an empty digest. If they are announced later, Options.Notify says when.
func (p *Peers) Changed(number uint64, lists map[string]string, later bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settlement.change(time.Now(), number, lists, later)
	for label := range lists {
		p.meanwhile[label] = true
	}
	p.beatSoon()
}

// Drains returns what operators have done last, at whichever replica.
func (p *Peers) Drains() map[string]Drain {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.drains)
}

// Drained notes what an operator has done to an upstream at this replica.
func (p *Peers) Drained(label string, drained bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// By the wall clock alone, which is all that other replicas' times have.
	at := time.Now().Round(0)
	if before := p.drains[label].At; !at.After(before) { // another replica's clock is ahead
		at = before.Add(1)
	}
	p.drains[label] = Drain{at, drained}
	p.beatSoon()
}

// Unsettled returns how many lists are unsettled, and since when the first of them is.
func (p *Peers) Unsettled() (n int, since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settlement.oldest()
}

// AwaitCompared waits, for a second at most, until a replica that was not alive knows what the
// others serve, and they what it serves. It is to be called before a list is answered. It hardly
// ever waits, and reports whether it did.
func (p *Peers) AwaitCompared(ctx context.Context) (waited bool) {
	if p.isFresh() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	for sleep(ctx, minHeartbeat) && !p.isFresh() { // so seldom that nothing has to signal it
	}
	return true
}

func (p *Peers) isFresh() bool {
	return !p.joined.Load() || p.store.get() == nil ||
		time.Since(time.Unix(0, p.comparedAt.Load())) < freshFor
}

// run sends heartbeats until ctx ends.
func (p *Peers) run(ctx context.Context) {
	for ctx.Err() == nil {
		p.step(ctx)
	}
}

// step sends one heartbeat, and waits until the next one is due.
func (p *Peers) step(ctx context.Context) {
	select {
	case <-time.After(p.beat(ctx)):
	case <-p.wake:
	case <-p.store.closing():
	case <-ctx.Done():
	}
	// Changes that come at about the same time share a heartbeat.
	sleep(ctx, minHeartbeat)
}

// beat sends one heartbeat, compares, and has listeners notified. It returns when the next one is
// due.
func (p *Peers) beat(ctx context.Context) (next time.Duration) {
	began := time.Now()
	if !p.joined.Load() && !p.opts.IsReady() {
		// What changes meanwhile is announced after settleTimeout all the same.
		p.decide(nil, false)
		return heartbeatInterval / 10
	}
	others, err := p.exchange(ctx)
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrUnavailable) {
		p.store.report(err)
	}
	next = p.decide(others, err == nil)
	if err == nil {
		p.joined.Store(true)
		// When it began: the store counts aliveFor from a later moment, so that freshFor ends
		// first.
		p.comparedAt.Store(began.UnixNano())
	}
	return next
}

// exchange writes what this replica serves, and returns the records of the live replicas that serve
// something else. One that was not alive does so twice: the second time it says where it was
// behind.
func (p *Peers) exchange(ctx context.Context) (others map[string]record, err error) {
	client := p.store.get()
	if client == nil {
		return nil, ErrUnavailable
	}
	// By its own clock, too: the store may have taken a heartbeat whose answer did not arrive.
	p.away = p.away || time.Since(time.Unix(0, p.comparedAt.Load())) >= freshFor
	for range 2 {
		p.mu.Lock()
		isFirst := !p.joined.Load()
		mine := p.settlement.record(time.Now(), maps.Clone(p.drains))
		mine.IsAlone = p.opts.IsAlone
		// Under the lock: the record shares the maps of the settlement.
		plain, err := json.Marshal(mine, json.Deterministic(true))
		meanwhile := p.meanwhile
		p.meanwhile = map[string]bool{}
		p.mu.Unlock()
		if err != nil {
			return nil, err
		}
		digests, isNew, err := p.write(ctx, client, plain)
		p.away = p.away || isNew
		if err == nil {
			others, err = p.read(ctx, client, digests)
		}
		p.mu.Lock()
		if err != nil {
			// No other replica has seen these changes, as far as is known here. The store may have
			// answered that this one was not alive, and will not do so again.
			maps.Copy(p.meanwhile, meanwhile)
			p.away = true
			p.mu.Unlock()
			return nil, err
		}
		if p.mergeDrains(others) {
			defer p.beatSoon() // with a record that has them, too, should the other one end
		}
		// After the drains, which count whoever has them.
		maps.DeleteFunc(others, func(_ string, r record) bool { return r.IsAlone || p.opts.IsAlone })
		wasAway := p.away
		if p.away = false; wasAway {
			maps.Copy(meanwhile, p.meanwhile) // since the record was written
			if isFirst {
				meanwhile = nil // nobody has been served anything yet
			}
			p.settlement.rejoin(time.Now(), others, meanwhile)
		}
		p.mu.Unlock()
		if !wasAway {
			return others, nil
		}
	}
	return others, nil
}

// heartbeatScript says that this replica is alive, with the digest of its record, and returns the
// names and digests of all that are, after whether this one was not, and whether the store lacks
// its record.
//
//	KEYS  the live replicas by each cursor key, this replica's record by each
//	ARGV  its name, the digest, for how many milliseconds, the record if it is another one than before
//
// It writes by the first key. What it has written by another one, before the keys were replaced, is
// older.
//
//nolint:gochecknoglobals // a constant
var heartbeatScript = valkey.NewLuaScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local life = tonumber(ARGV[3])
local n = #KEYS / 2
local answer = {'1', '0'}
for i = 1, n do
	local before = redis.call('HGET', KEYS[i], ARGV[1])
	if before and tonumber(string.match(before, '^%d+')) > now then answer[1] = '0' end
	if i > 1 then
		redis.call('HDEL', KEYS[i], ARGV[1])
		redis.call('DEL', KEYS[n+i])
	end
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now + life) .. ' ' .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], life)
if ARGV[4] ~= '' then
	redis.call('SET', KEYS[n+1], ARGV[4], 'PX', life)
elseif redis.call('PEXPIRE', KEYS[n+1], life) == 0 then
	answer[2] = '1'
end
for i = 1, n do
	local all = redis.call('HGETALL', KEYS[i])
	for j = 1, #all, 2 do
		local ends, digest = string.match(all[j+1], '^(%d+) (.*)$')
		ends = tonumber(ends or 0)
		if ends <= now or ends > now + 10 * life then
			redis.call('HDEL', KEYS[i], all[j])
		elseif all[j] ~= ARGV[1] then
			answer[#answer+1] = all[j]
			answer[#answer+1] = digest
		end
	end
end
return answer`)

// write says that this replica is alive, and returns the digests of the others by their names.
func (p *Peers) write(
	ctx context.Context, client valkey.Client, plain []byte,
) (digests map[string]string, isNew bool, err error) {
	keys := p.store.keys.Load()
	digest := hash(keys.fleet[0], string(plain))
	names := append(keys.named("alive"), keys.named("record "+p.messages.name)...)
	args := []string{p.messages.name, digest, strconv.FormatInt(aliveFor.Milliseconds(), 10), ""}
	isHint := p.written != digest
	for {
		if isHint || p.written != digest {
			args[3] = keys.box.Seal(plain)
		}
		bound, cancel := context.WithTimeout(ctx, storeTimeout)
		var answer []string
		err = within(storeTimeout, func() (err error) {
			answer, err = heartbeatScript.Exec(bound, client, names, args).AsStrSlice()
			return err
		})
		cancel()
		if err != nil || len(answer) < 2 {
			p.written = ""
			return nil, isNew, err
		}
		p.written, digests, isNew = digest, map[string]string{}, isNew || answer[0] == "1"
		for i := 2; i+1 < len(answer); i += 2 {
			digests[answer[i]] = answer[i+1]
		}
		if answer[1] == "0" {
			break
		}
		// It is not known which record the store has.
		p.written = "" // the store has lost it
	}
	if isHint {
		// After the write, or whoever compares because of it might find the earlier record.
		p.messages.Publish("", topicHeartbeat, struct{}{})
	}
	for name := range digests {
		if digests[name] == digest {
			digests[name] = "" // it serves the same
		}
	}
	return digests, isNew, nil
}

// read returns the records of those that serve something else.
func (p *Peers) read(
	ctx context.Context, client valkey.Client, digests map[string]string,
) (map[string]record, error) {
	keys, others := p.store.keys.Load(), map[string]record{}
	maps.DeleteFunc(p.records, func(name string, _ peerKey) bool {
		_, isAlive := digests[name]
		return !isAlive
	})
	for name, digest := range digests {
		known := p.records[name]
		if digest == "" {
			continue
		}
		if known.digest != digest {
			next, err := p.fetch(ctx, client, keys, name)
			if err != nil {
				return nil, err
			}
			if known = (peerKey{digest, next}); next.Lists != nil { // else it may be there later
				p.records[name] = known
			}
		}
		others[name] = known.record
	}
	return others, nil
}

// fetch returns the record of a replica. One that cannot be read serves nothing that is known.
func (p *Peers) fetch(
	ctx context.Context, client valkey.Client, keys *keys, name string,
) (r record, err error) {
	for _, key := range keys.named("record " + name) {
		bound, cancel := context.WithTimeout(ctx, storeTimeout)
		sealed, err := client.Do(bound, client.B().Get().Key(key).Build()).ToString()
		cancel()
		switch {
		case valkey.IsValkeyNil(err):
			continue
		case err != nil:
			return r, err
		case len(sealed) > maxRecord:
			continue
		}
		if plain, err := keys.box.Open(sealed); err == nil && json.Unmarshal(plain, &r) == nil {
			return r, nil
		}
	}
	return r, nil
}

// mergeDrains adopts what operators have done last at other replicas. It reports whether that is
// new here.
func (p *Peers) mergeDrains(others map[string]record) (isNew bool) {
	news := map[string]Drain{}
	for _, other := range others {
		for label, drain := range other.Drains {
			if drain.At.After(p.drains[label].At) {
				p.drains[label], news[label] = drain, drain
			}
		}
	}
	if len(news) > 0 {
		p.opts.Drain(news)
	}
	return len(news) > 0
}

// decide has listeners notified, and returns when to compare again.
func (p *Peers) decide(others map[string]record, known bool) (next time.Duration) {
	now := time.Now()
	p.mu.Lock()
	// What has changed since the record was written is not what the others were compared with.
	verdict, late := p.settlement.compare(now, others, known && len(p.meanwhile) == 0)
	next = heartbeatInterval
	if len(p.settlement.pending) > 0 {
		// Else a change would wait for the next heartbeat after its time is over.
		next = min(next, p.settlement.since.Add(settleTimeout).Sub(now))
	}
	p.mu.Unlock()
	if verdict.Announce > 0 || verdict.Again {
		p.opts.Notify(verdict)
	}
	for _, u := range late {
		p.store.logger.Warn("replicas serve different lists: a server answers each of them differently, "+
			"or one does not reach it", slog.String("upstream", u.Upstream), slog.Time("since", u.Since))
	}
	return max(next, 0)
}

// leave says that this replica is not alive any more, so that no change waits for it.
func (p *Peers) leave() {
	client := p.store.get()
	if client == nil || !p.joined.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	keys := p.store.keys.Load()
	leave := client.B().Hdel().Key(keys.named("alive")[0]).Field(p.messages.name).Build()
	_ = client.Do(ctx, leave).Error() // or it expires
}
