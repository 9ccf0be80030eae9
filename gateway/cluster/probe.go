package cluster

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"
)

const (
	// probeInterval is how often the store is probed.
	probeInterval = time.Second
	// minAway and maxAway bound how long a store that failed stays away at least: longer each time, until it has been here for
	// settled. The first time may be due to a busy machine, for a moment.
	minAway, maxAway = 20 * time.Millisecond, 2 * time.Second
	settled          = 5 * time.Second
)

// probeScript does what limits need of the store: it runs as a script, and writes.
//
//nolint:gochecknoglobals // a constant
var probeScript = valkey.NewLuaScript(`redis.call('SET', KEYS[1], '', 'PX', 1000) return 1`)

// keep connects to the store, probes it, and connects again whenever that fails, until ctx ends.
func (s *Store) keep(ctx context.Context) {
	store := s.connectAll(ctx)
	defer store.close()
	if ctx.Err() != nil {
		return
	}
	client := store.client
	pause := minAway
	for s.awaitAnswer(ctx, client) {
		began := time.Now()
		s.use(store)
		s.probeWhileHere(ctx, client)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > settled {
			pause = minAway
		}
		if !sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, maxAway)
	}
}

// connectAll returns all clients once the store can be reached; some are nil if ctx ends first. They are made side by side, since requests
// are not counted together before.
func (s *Store) connectAll(ctx context.Context) *connected {
	var all connected
	var connecting sync.WaitGroup
	if s.sharesWatch {
		connecting.Go(func() { all.beside = s.connect(ctx) })
	}
	all.client = s.connect(ctx)
	connecting.Wait()
	return &all
}

func (c *connected) close() {
	for _, client := range []valkey.Client{c.client, c.beside} {
		if client != nil {
			client.Close()
		}
	}
}

// connect returns a client as soon as the store can be reached; nil if ctx ends first.
func (s *Store) connect(ctx context.Context) valkey.Client {
	for {
		client, err := valkey.NewClient(s.client)
		if err == nil {
			return client
		}
		if ctx.Err() != nil {
			return nil
		}
		s.unreachable(err)
		if !sleep(ctx, probeInterval) {
			return nil
		}
	}
}

// unreachable notes why the store is not reached. Only the first time is logged.
func (s *Store) unreachable(err error) {
	err = s.mask.Error(err)
	before := s.state.Load()
	for !s.state.CompareAndSwap(before, &State{Since: before.Since, Err: err}) { // another client is not connected either
		before = s.state.Load()
	}
	s.answer()
	if before.Err == nil {
		s.logger.Warn("store away: each replica works alone", slog.Any("error", err))
	}
}

// awaitAnswer returns true once the store has answered a probe in time, and false if ctx ends first.
func (s *Store) awaitAnswer(ctx context.Context, client valkey.Client) bool {
	for {
		err := s.probe(ctx, client, patience)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		s.unreachable(err)
		if !sleep(ctx, probeInterval) {
			return false
		}
	}
}

// probeWhileHere returns when the store is away, or ctx ends: a store that nobody asks anything may be gone as well.
func (s *Store) probeWhileHere(ctx context.Context, client valkey.Client) {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	here := s.here.Load()
	for {
		s.check(ctx, here, s.announceWaiting(ctx, client))
		select {
		case <-s.lost:
			return
		case <-ctx.Done():
			s.here.Store(nil)
			return
		case <-ticker.C:
			s.check(ctx, here, s.probe(ctx, client, answerPatience))
		}
	}
}

// check makes the store away if there is an error, and ctx has not ended.
func (s *Store) check(ctx context.Context, here *connected, err error) {
	if err != nil && ctx.Err() == nil {
		s.fail(here, err)
	}
}

// probe asks the store for what limits need of it.
func (s *Store) probe(ctx context.Context, client valkey.Client, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return probeScript.Exec(ctx, client, []string{s.keys.Load().probe}, nil).Error()
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
