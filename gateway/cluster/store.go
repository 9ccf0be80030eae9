package cluster

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/seal"
)

const (
	// requestTimeout bounds the time that a request waits for the store, storeTimeout the time of a probe.
	requestTimeout, storeTimeout = 50 * time.Millisecond, time.Second
	// probeInterval is the time between probes. After the breaker has opened, the time starts at
	// minProbeInterval and doubles up to probeInterval.
	probeInterval, minProbeInterval = time.Second, 50 * time.Millisecond
)

// ErrUnavailable means that the breaker is open, or that the operation failed or took too long.
var ErrUnavailable = errors.New("the store cannot be used at the moment")

var errLate = errors.New("the store takes longer than 50 ms to answer")

// Replica is one replica of a cluster. Make it with [New].
type Replica struct {
	Limits *Limits
	// Forwarder is nil if other replicas cannot reach this replica.
	Forwarder *Forwarder

	store *store
}

// State is the state of the connection to the store.
type State struct {
	// Connected is false while the breaker is open. After a late answer, it stays true until answers have
	// been late for 200 ms.
	Connected bool
	// Since is the time of the last change of Connected.
	Since time.Time
	// Err is the reason why Connected is false. It is nil before the first attempt. It may contain addresses.
	Err error
	// Opened counts the changes of Connected to false.
	Opened uint64
	// Evicts is the store's maxmemory-policy if the store drops keys when its memory is full, which loses the
	// limits in these keys. Otherwise it is "".
	Evicts string
}

// New returns the replica for a configuration with a cluster block. It contacts the store only after
// [Replica.Start].
func New(cfg *config.Config, sealer *seal.Sealer, logger *slog.Logger) *Replica {
	s := &store{logger: logger, mask: cfg.Cluster.Store.Mask(), option: clientOption(cfg.Cluster), wake: make(chan struct{}, 1)}
	s.state.Store(&State{Since: time.Now()})
	r := &Replica{Limits: &Limits{s}, Forwarder: newForwarder(cfg.Cluster, logger), store: s}
	r.Use(cfg, sealer)
	return r
}

// checkTimeout bounds a [Check].
const checkTimeout = 5 * time.Second

// Check connects to the store of cfg once, tests the features that a replica needs, and returns the result.
func Check(ctx context.Context, cfg *config.Config, sealer *seal.Sealer) State {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	s := New(cfg, sealer, slog.New(slog.DiscardHandler)).store
	s.option.DialCtxFn = dialUntil(ctx)
	client, err := valkey.NewClient(s.option)
	if err == nil {
		defer client.Close()
		defer cancel() // runs before Close, which waits for a hanging store
		if err = s.probe(ctx, client); errors.Is(err, errLate) {
			err = s.probe(ctx, client) // the first probe also loads the script
		}
	}
	s.report(err)
	return *s.state.Load()
}

// Use switches to the cursor keys and the public_url of a reloaded configuration.
func (r *Replica) Use(cfg *config.Config, sealer *seal.Sealer) {
	r.store.keys.Store(&keys{
		principal: sealer.MAC("cluster principal"), limits: sealer.MAC("cluster limit"),
		probe: "promptweir:probe:" + hash(sealer.MAC("cluster probe"), "probe"),
	})
	r.Forwarder.use(cfg, sealer)
}

// State returns the current state of the connection to the store.
func (r *Replica) State() State { return *r.store.state.Load() }

// Start connects to the store in the background and stays connected until end is called, even after ctx ends.
// end waits until the connection is closed. Call Start once.
func (r *Replica) Start(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.store.option.DialCtxFn = dialUntil(ctx)
	var running sync.WaitGroup
	running.Go(func() { r.store.run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// store is the connection to the store, with its circuit breaker.
type store struct {
	logger *slog.Logger
	mask   config.Mask
	option valkey.ClientOption
	keys   atomic.Pointer[keys]
	client atomic.Pointer[valkey.Client] // nil until the first connection
	state  atomic.Pointer[State]
	wake   chan struct{} // capacity 1; receives a value after a failed operation

	mu      sync.Mutex // guards breaker
	breaker breaker
}

// get returns the client, or nil while the breaker is open.
func (s *store) get() valkey.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if client := s.client.Load(); client != nil && s.breaker.isClosed {
		return *client
	}
	return nil
}

// run connects, and then probes the store until ctx ends.
func (s *store) run(ctx context.Context) {
	client := s.connect(ctx)
	if client == nil {
		return
	}
	defer client.Close()
	s.client.Store(&client)
	for {
		err := s.probe(ctx, client)
		if ctx.Err() != nil {
			return
		}
		select {
		case <-s.wake:
		case <-time.After(s.report(err)):
		case <-ctx.Done():
		}
	}
}

// connect returns a client once the store can be reached, or nil if ctx ends first.
func (s *store) connect(ctx context.Context) valkey.Client {
	for {
		client, err := valkey.NewClient(s.option)
		if err == nil || ctx.Err() != nil {
			return client
		}
		s.report(err)
		select {
		case <-time.After(probeInterval):
		case <-ctx.Done():
			return nil
		}
	}
}

// do runs an operation for a request, and returns errLate if it takes longer than requestTimeout. The
// operation then continues in its goroutine: the client ignores contexts while its queue is full.
func (s *store) do(operation func() error) error {
	err := within(requestTimeout, operation)
	if err != nil {
		s.report(err)
		// Probe at once, to tell a slow store from one slow operation. Until the probe succeeds, this replica
		// counts alone.
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	return err
}

func within(d time.Duration, operation func() error) error {
	done := make(chan error, 1)
	go func() { done <- operation() }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errLate
	}
}

// report records the result of a probe, or a failed operation, in the breaker. It returns the time until the
// next probe. Do not report successful operations.
func (s *store) report(err error) (next time.Duration) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	next = s.breaker.report(now, err)
	state := *s.state.Load()
	switch {
	case s.breaker.isClosed && !state.Connected:
		state.Connected, state.Since, state.Err = true, now, nil
		s.logger.Info("store in use: replicas share limits")
	// Before the first attempt, Connected is false and Err is nil: report the first failure, too.
	case s.breaker.isAway(now, err) && (state.Connected || state.Err == nil):
		masked := s.mask.Error(err)
		if state.Connected {
			state.Opened++
			state.Since = now
		}
		state.Connected, state.Err = false, masked
		s.logger.Warn("store unavailable: each replica counts alone", slog.Any("error", masked))
	default:
		return next
	}
	s.state.Store(&state)
	return next
}

// probeScript tests the features that limits need: scripts and writes. It returns the store's memory bound
// and eviction policy, if the store reveals them.
//
//nolint:gochecknoglobals // a constant
var probeScript = valkey.NewLuaScript(`
redis.call('SET', KEYS[1], '', 'PX', 1000)
local memory = redis.pcall('INFO', 'memory')
local function find(pattern)
	return type(memory) == 'string' and string.match(memory, pattern) or ''
end
return {find('maxmemory:(%d+)'), find('maxmemory_policy:([%w-]+)')}`)

// probe runs probeScript. If the answer takes longer than a request would wait, it returns errLate. It waits
// up to storeTimeout all the same, because the client may have to connect first.
func (s *store) probe(ctx context.Context, client valkey.Client) error {
	began := time.Now()
	var answer []string
	err := within(storeTimeout, func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		answer, err = probeScript.Exec(ctx, client, []string{s.keys.Load().probe}, nil).AsStrSlice()
		return err
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded), err == nil && time.Since(began) > requestTimeout:
		return errLate
	case err == nil && len(answer) == 2:
		s.noteMemory(answer[0], answer[1])
	}
	return err
}

// noteMemory records whether the store drops limits when its memory is full, and logs a warning if so.
func (s *store) noteMemory(maxMemory, policy string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bound, err := strconv.ParseUint(maxMemory, 10, 64)
	if err != nil || bound == 0 || policy == "noeviction" {
		policy = ""
	}
	state := *s.state.Load()
	if state.Evicts == policy {
		return
	}
	if state.Evicts = policy; policy != "" {
		s.logger.Warn("store evicts: set its maxmemory-policy to noeviction, "+
			"or limits are lost when its memory is full", slog.String("maxmemory_policy", policy))
	}
	s.state.Store(&state)
}

const (
	// Once answers have been late for maxLate, the store counts as unavailable. One late answer may come from
	// a busy machine.
	maxLate = 200 * time.Millisecond
	// Each time the breaker opens, its cool-down doubles from minCoolDown up to maxCoolDown. After the breaker
	// has been closed for steadyTime, the cool-down starts over.
	minCoolDown, maxCoolDown, steadyTime = 20 * time.Millisecond, time.Second, 5 * time.Second
)

// breaker is the state of the circuit breaker that doc.go draws. The zero value is open.
type breaker struct {
	isClosed bool
	changed  time.Time // time of the last opening or closing
	// coolDown is the minimum time that the breaker stays open after a failure. It ends at trusted.
	coolDown time.Duration
	trusted  time.Time
	retry    time.Duration // interval of probes while the breaker is open
}

// report records the result of a probe, or a failed operation, and returns the time until the next probe.
func (b *breaker) report(now time.Time, err error) (next time.Duration) {
	switch {
	// A success does not shorten the cool-down.
	case err == nil && !b.isClosed && now.Before(b.trusted):
		return b.trusted.Sub(now)
	case err == nil && !b.isClosed:
		b.isClosed, b.changed, b.retry = true, now, 0
		return probeInterval
	case err == nil:
		return probeInterval
	case b.isClosed:
		if b.coolDown = min(2*b.coolDown, maxCoolDown); b.coolDown == 0 || now.Sub(b.changed) > steadyTime {
			b.coolDown = minCoolDown
		}
		b.isClosed, b.changed = false, now
	}
	b.trusted = now.Add(b.coolDown)
	if !b.isAway(now, err) {
		return 0 // probe at once: one late answer does not mean that the store is away
	}
	b.retry = min(max(2*b.retry, minProbeInterval), probeInterval)
	return b.retry
}

// isAway reports whether the store counts as unavailable after err: the operation failed, or answers have been
// late for maxLate.
func (b *breaker) isAway(now time.Time, err error) bool {
	return err != nil && (!errors.Is(err, errLate) || now.Sub(b.changed) >= maxLate)
}
