package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"
	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/seal"
)

const (
	// requestTimeout bounds what is on a request's way, and storeTimeout what nobody waits for.
	requestTimeout, storeTimeout = 50 * time.Millisecond, time.Second
	// probeInterval is how often the store is probed. While the breaker is not closed, it is probed
	// sooner: after minProbeInterval, then after twice as long each time.
	probeInterval, minProbeInterval = time.Second, 50 * time.Millisecond
)

// ErrUnavailable means that the breaker does not let an operation pass, or that the store did not
// carry it out.
var ErrUnavailable = errors.New("the store cannot be used at the moment")

var errLate = errors.New("the store takes longer than 50 ms to answer")

// Replica is one replica of a cluster. Make it with [New]. Its parts share one connection.
type Replica struct {
	Limits   *Limits
	Messages *Messages
	Peers    *Peers
	store    *store
}

// State is the condition of the connection to the store.
type State struct {
	// Connected says that the breaker is not open: replicas share what they should, but for counts
	// while it is half-open.
	Connected bool
	// Since is when that began.
	Since time.Time
	// Err is why not; nil where the store is connected, or has not been asked yet. It may have
	// addresses.
	Err error
	// Opened counts how often the breaker has opened.
	Opened uint64
	// Evicts is the policy by which the store drops keys where its memory is full, and limits with
	// them; empty where it does not.
	Evicts string
}

// New returns a replica that is not connected. It contacts nothing; [Replica.Run] does.
func New(cfg *config.Cluster, sealer *seal.Sealer, logger *slog.Logger, opts Options) (*Replica, error) {
	option, err := clientOption(cfg)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	s := &store{
		logger: logger, mask: cfg.Store.Mask(), option: option,
		wake: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	s.state.Store(&State{Since: time.Now()})
	s.keys.Store(newKeys(sealer, cfg.Store.Database))
	r := &Replica{Limits: &Limits{s}, Messages: newMessages(s), store: s}
	r.Peers = newPeers(s, r.Messages, opts)
	return r, nil
}

// checkTimeout bounds a [Check].
const checkTimeout = 5 * time.Second

// Check asks a store once for all that a replica needs of it, and returns its condition. It joins
// no other replicas.
func Check(ctx context.Context, cfg *config.Cluster, sealer *seal.Sealer) State {
	r, err := New(cfg, sealer, slog.New(slog.DiscardHandler), Options{})
	if err != nil {
		return State{Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	s := r.store
	s.option.DialCtxFn = dialUntil(ctx)
	client, err := valkey.NewClient(s.option)
	if err == nil {
		defer client.Close()
		defer cancel() // first, since the client waits for a store that hangs
		if err = s.probe(ctx, client); errors.Is(err, errLate) {
			err = s.probe(ctx, client) // the store may not have had the script
		}
	}
	s.report(err)
	return r.State()
}

// SetKeys has the replica derive its keys from the cursor keys of a new configuration.
func (r *Replica) SetKeys(sealer *seal.Sealer) {
	s := r.store
	if before := s.keys.Load(); before.sealer != sealer {
		s.keys.Store(newKeys(sealer, s.option.SelectDB))
		before.replace()
	}
}

// State returns the condition of the connection.
func (r *Replica) State() State { return *r.store.state.Load() }

// Run keeps the store connected until ctx ends. To be called once.
func (r *Replica) Run(ctx context.Context) error {
	s := r.store
	// The connection outlasts ctx, for leave.
	connected, disconnect := context.WithCancel(context.WithoutCancel(ctx))
	s.option.DialCtxFn = dialUntil(connected)
	group, _ := errgroup.WithContext(ctx)
	group.Go(func() error { s.run(connected); return nil })
	group.Go(func() error { r.Messages.listen(connected); return nil })
	group.Go(func() error { r.Messages.repeat(connected); return nil })
	r.Peers.run(ctx)
	r.Peers.leave() // while there is a connection
	disconnect()
	return group.Wait()
}

// Start runs the replica until end is called, which waits for its end. That ctx ends does not
// matter.
func (r *Replica) Start(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) }) // it returns none
	return func() {
		cancel()
		running.Wait()
	}
}

// store is the connection, with its circuit breaker.
type store struct {
	logger *slog.Logger
	mask   config.Mask
	option valkey.ClientOption
	keys   atomic.Pointer[keys]
	client atomic.Pointer[valkey.Client] // nil before the store was first reached
	state  atomic.Pointer[State]
	wake   chan struct{} // holds at most one mark: the breaker has opened

	mu      sync.Mutex // guards what follows
	breaker breaker
	server  string        // the id of the one that answered last
	closed  chan struct{} // is closed when the breaker closes, and replaced
}

// get returns the client; nil while the breaker is open.
func (s *store) get() valkey.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if client := s.client.Load(); client != nil && s.breaker.position != open {
		return *client
	}
	return nil
}

// isClosed reports whether requests may wait for the store.
func (s *store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.breaker.position == closed
}

// await returns the client once the breaker is closed; nil if ctx ends first.
func (s *store) await(ctx context.Context) valkey.Client {
	for ctx.Err() == nil {
		closed := s.closing()
		if client := s.get(); client != nil {
			return client
		}
		select {
		case <-closed:
		case <-ctx.Done():
		}
	}
	return nil
}

// closing returns a channel that is closed when the breaker closes next.
func (s *store) closing() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
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
		timer := time.NewTimer(s.report(err))
		select {
		case <-s.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// connect returns a client as soon as the store can be reached; nil if ctx ends first.
func (s *store) connect(ctx context.Context) valkey.Client {
	for {
		client, err := valkey.NewClient(s.option)
		if err == nil || ctx.Err() != nil {
			return client
		}
		s.report(err)
		if !sleep(ctx, probeInterval) {
			return nil
		}
	}
}

// do carries out an operation on a request's way, and returns errLate once it takes too long. The
// operation goes on then: the client ignores a context where its queue is full.
func (s *store) do(operation func() error) error {
	err := within(requestTimeout, operation)
	if err != nil {
		s.report(err)
		// A probe finds out at once whether the store is late or one operation was: until then, all
		// requests are counted here.
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

// report tells the breaker how an operation ended, and returns when to probe next. A successful one
// is a probe.
func (s *store) report(err error) (next time.Duration) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.breaker.position
	next = s.breaker.report(now, err)
	after := s.breaker.position
	state := *s.state.Load()
	switch {
	case after == closed && before != closed:
		// Whoever waits for the store goes on: subscriptions, heartbeats and announcements.
		close(s.closed)
		s.closed = make(chan struct{})
		if !state.Connected {
			state.Connected, state.Since, state.Err = true, now, nil
			s.logger.Info("store in use: replicas share limits and sessions")
		}
	// The breaker begins open, without an error: the first failure is news, too.
	case after == open && (before != open || state.Err == nil):
		masked := s.mask.Error(err)
		if state.Connected {
			state.Opened++
			state.Since = now
		}
		state.Connected, state.Err = false, masked
		s.logger.Warn("store unavailable: each replica works alone", slog.Any("error", masked))
	default:
		return next
	}
	s.state.Store(&state)
	return next
}

// probeScript does what limits, messages and peers need of the store: it runs as a script, writes,
// and publishes, to nobody. To a user who may not do all of that, the breaker is open, rather than
// now and then. It returns which server has answered, its memory's bound and its policy, where it
// tells.
//
//nolint:gochecknoglobals // a constant
var probeScript = valkey.NewLuaScript(`
redis.call('SET', KEYS[1], '', 'PX', 1000)
redis.call('PUBLISH', KEYS[1], '')
local server, memory = redis.pcall('INFO', 'server'), redis.pcall('INFO', 'memory')
local function find(info, pattern)
	return type(info) == 'string' and string.match(info, pattern) or ''
end
return {find(server, 'run_id:(%w+)'), find(memory, 'maxmemory:(%d+)'),
	find(memory, 'maxmemory_policy:([%w-]+)')}`)

// probe asks the store for what is needed of it. It waits for longer than requests, since the
// client may have to connect first.
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
	case err == nil && len(answer) == 3:
		s.answered(answer[0], answer[1], answer[2])
	}
	return err
}

// answered notes which server has answered. One that takes the place of another while both answer,
// as in a planned failover, may lack what the other was told last: that is like an absence.
func (s *store) answered(server, maxMemory, policy string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != "" && s.server != server {
		// Whoever waits for the breaker to close does what it does then: subscribe, announce,
		// compare.
		close(s.closed)
		s.closed = make(chan struct{})
	}
	s.server = server
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

// position is that of a circuit breaker.
type position int

const (
	open position = iota
	halfOpen
	closed
)

const (
	// maxLate is how long a store may be late before the breaker opens: one that is late once may
	// be due to a busy machine.
	maxLate = 200 * time.Millisecond
	// A breaker that opens again and again cools down for longer each time, until it was closed for
	// steadyTime.
	minCoolDown, maxCoolDown, steadyTime = 20 * time.Millisecond, time.Second, 5 * time.Second
)

// breaker is the state of a circuit breaker, see doc.go. The zero value is open.
type breaker struct {
	position position
	// lateSince is when it became half-open, closedAt when it closed last.
	lateSince, closedAt time.Time
	coolDown, retry     time.Duration
	trusted             time.Time // when it may close
}

// report takes how an operation ended, and returns when to probe next.
func (b *breaker) report(now time.Time, err error) (next time.Duration) {
	switch {
	case err == nil && b.position == closed:
		return probeInterval
	// A store that answers now and then is not trusted sooner.
	case err == nil && now.Before(b.trusted):
		return b.trusted.Sub(now)
	case err == nil:
		b.position, b.closedAt, b.retry = closed, now, 0
		return probeInterval
	// One late answer may be chance: the probe that follows at once decides.
	case errors.Is(err, errLate) && b.position == closed:
		b.leave(halfOpen, now)
		b.lateSince = now
		return 0
	case errors.Is(err, errLate) && b.position == halfOpen && now.Sub(b.lateSince) < maxLate:
		return 0
	}
	if b.position == closed {
		b.leave(open, now)
	}
	b.position, b.trusted = open, now.Add(b.coolDown)
	b.retry = min(max(2*b.retry, minProbeInterval), probeInterval)
	return b.retry
}

// leave leaves the closed position.
func (b *breaker) leave(to position, now time.Time) {
	b.coolDown = min(2*b.coolDown, maxCoolDown)
	if b.coolDown == 0 || now.Sub(b.closedAt) > steadyTime {
		b.coolDown = minCoolDown
	}
	b.position, b.trusted = to, now.Add(b.coolDown)
}

// sleep reports whether ctx has not ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
