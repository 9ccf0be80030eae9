package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

const (
	// changeInterval is how often the list changes during traffic.
	changeInterval = 700 * time.Millisecond
	// killInterval is how often a replica is killed, and absence how long it is away until something starts it again.
	killInterval, absence = 5 * time.Second, 500 * time.Millisecond
	// blur is how exactly the rig knows when a request began, and a process ended: clients, HAProxy and gateways share the machine.
	blur = 100 * time.Millisecond
)

// traffic is what clients do while replicas end or change: they get prompts without a limit and with one, walk all pages, and follow changes,
// which come as long as it lasts. Stop ends it.
type traffic struct {
	w             *world
	perSecond     int // of gets
	free, limited *rig.Paced
	followers     *followers
	began         time.Time

	stopping chan struct{}
	pending  sync.WaitGroup
	// walks counts the lists, and err is what went wrong with one. Both are complete after stop.
	walks int
	err   error
}

// beginTraffic begins it with numbers of gets a second. What fails is tried again a number of times, because replicas are killed.
func (w *world) beginTraffic(ctx context.Context, free, limited, retries int) *traffic {
	t := &traffic{w: w, perSecond: free + limited, began: time.Now(), stopping: make(chan struct{})}
	t.free, t.limited = w.begin(ctx, "plain.p00000", free), w.begin(ctx, "plain.limited", limited)
	t.followers = w.follow(ctx, 3, retries)
	t.pending.Go(func() {
		for !t.isStopping(0) {
			names, err := w.client.Walk(ctx, retries)
			if err == nil {
				_, _, err = marks(names)
			}
			t.err = errors.Join(t.err, err)
			t.walks++
		}
	})
	t.pending.Go(func() {
		for !t.isStopping(changeInterval) {
			w.change()
		}
	})
	return t
}

func (t *traffic) isStopping(wait time.Duration) bool {
	select {
	case <-t.stopping:
		return true
	case <-time.After(wait):
		return false
	}
}

// met is what traffic has met.
type met struct {
	free, limited []rig.Got
	cut           int
	rate          float64 // of gets, a second
	said          string
}

// stop ends the traffic. An error means that a list was not whole, or that a client has missed a change.
func (t *traffic) stop() (m met, err error) {
	close(t.stopping)
	t.pending.Wait()
	_, missed := t.followers.await(t.w.change())
	m.free, m.limited = t.free.Stop(), t.limited.Stop()
	m.rate = float64(len(m.free)+len(m.limited)) / time.Since(t.began).Seconds()
	m.cut = t.followers.sum(func(f *follower) int { return f.cut })
	m.said = fmt.Sprintf("%d gets, %.0f a second, of which %d failed, %d whole lists, %d streams that ended with their closing result and %d that "+
		"were cut", len(m.free)+len(m.limited), m.rate, len(unlimited(m.free))+len(unlimited(m.limited)), t.walks,
		t.followers.sum(func(f *follower) int { return f.ended }), m.cut)
	return m, errors.Join(t.err, missed, t.followers.stop())
}

// none ends traffic of which nothing may have failed, and which was as much as it was to be.
func (t *traffic) none(failed error, s *settings) (string, error) {
	m, err := t.stop()
	if failed = errors.Join(failed, err, anyFailure(m.free), anyFailure(m.limited)); failed == nil && m.cut > 0 {
		failed = errors.New("streams were cut")
	}
	if !s.busy && m.rate < 0.95*float64(t.perSecond) {
		failed = errors.Join(failed, fmt.Errorf("%.0f gets a second instead of %d: the machine is too busy", m.rate, t.perSecond))
	}
	return m.said, failed
}

func (w *world) replace(ctx context.Context, i int, end func(g *rig.Gateway) error, absence time.Duration) error {
	listen, admin := addresses(w.gateways[i])
	if err := end(w.gateways[i]); err != nil {
		return err
	}
	time.Sleep(absence)
	next, err := w.startGateway(ctx, listen, admin)
	if err == nil {
		w.gateways[i] = next
	}
	return err
}

func (w *world) restart(ctx context.Context, i int) error {
	err := w.replace(ctx, i, func(g *rig.Gateway) error { return g.Terminate() }, 0)
	time.Sleep(time.Second) // HAProxy sends it requests again
	return err
}

func checkRollingRestart(ctx context.Context, w *world, s *settings) (string, error) {
	t := w.beginTraffic(ctx, 300, 200, 0)
	var failed error
	for i := range w.gateways {
		failed = errors.Join(failed, w.restart(ctx, i))
	}
	return t.none(failed, s)
}

// checkRollingChange changes the configuration of one gateway after another by a reload, and back by a restart: the upstream has another
// address and other headers.
func checkRollingChange(ctx context.Context, w *world, s *settings) (string, error) {
	t := w.beginTraffic(ctx, 480, 20, 0)
	err := w.roll(ctx, "plain", "other", func(i int) error {
		listen, admin := addresses(w.gateways[i])
		return w.gateways[i].Reload(ctx, fmt.Sprintf(w.configuration, listen, admin, w.other.block()))
	})
	if err == nil {
		err = w.roll(ctx, "other", "plain", func(i int) error { return w.restart(ctx, i) })
	}
	if n := w.plain.strangers.Load() + w.other.strangers.Load(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d requests with the headers of the other configuration", n))
	}
	return t.none(err, s)
}

// roll changes one replica after another. Each lists what its configuration's server offers, and nothing else.
func (w *world) roll(ctx context.Context, from, to string, change func(i int) error) error {
	for i := range w.gateways {
		if err := change(i); err != nil {
			return fmt.Errorf("replica %d: %w", i+1, err)
		}
		for j := range w.gateways {
			want := from
			if j <= i {
				want = to
			}
			if err := w.listsOnly(ctx, j, want); err != nil {
				return fmt.Errorf("after replica %d of %d was changed: %w", i+1, len(w.gateways), err)
			}
		}
	}
	return nil
}

// listsOnly returns an error if a replica lists something else than what one server offers, or mixes what both do.
func (w *world) listsOnly(ctx context.Context, replica int, server string) (mixed error) {
	err := rig.Eventually(timeout, func() error {
		names, err := w.at(replica).Walk(ctx, 0)
		if err != nil {
			return err
		}
		_, servers, err := marks(names)
		switch slices.Sort(servers); {
		case len(slices.Compact(servers)) > 1:
			mixed = fmt.Errorf("replica %d lists what %v offer", replica+1, servers)
		case err == nil && !slices.Contains(servers, server):
			return fmt.Errorf("replica %d lists what %v offers, want %s", replica+1, servers, server)
		}
		return err
	})
	return errors.Join(mixed, err)
}

// checkKilledReplicas kills replicas at random under load, and starts them again. Lost are only requests that were in flight there.
func checkKilledReplicas(ctx context.Context, w *world, s *settings) (string, error) {
	t := w.beginTraffic(ctx, 200, 300, 3)
	length := 2 * time.Minute
	if s.short {
		length = 20 * time.Second
	}
	type kill struct{ began, ended time.Time }
	var (
		kills  []kill
		failed error
	)
	for until := time.Now().Add(length); failed == nil && time.Now().Add(killInterval).Before(until); {
		k := kill{began: time.Now()}
		failed = w.replace(ctx, rand.IntN(len(w.gateways)), func(g *rig.Gateway) error { //nolint:gosec // need not be secret
			err := g.Kill()
			k.ended = time.Now()
			return err
		}, absence)
		kills = append(kills, k)
		time.Sleep(killInterval - time.Since(k.began))
	}
	from, to := t.began.Add(time.Second), time.Now() // after the burst
	m, err := t.stop()
	failed = errors.Join(failed, err)
	cut := func(g rig.Got) bool {
		return slices.ContainsFunc(kills, func(k kill) bool { return g.Began.Before(k.ended.Add(blur)) && g.Began.Add(g.Took).After(k.began) })
	}
	lost := unlimited(slices.Concat(m.free, m.limited))
	for _, g := range lost {
		if !cut(g) {
			failed = errors.Join(failed, fmt.Errorf("a get was lost that was not in flight when a replica was killed: %w", g.Err))
		}
	}
	answered := slices.DeleteFunc(slices.Clone(m.limited), func(g rig.Got) bool { return g.Err != nil && !limited(g.Err) })
	held, err := s.rateWithin(answered, from, to, rate, tolerance)
	return fmt.Sprintf("%d kills: %s; %d gets lost, in flight around one; %s", len(kills), m.said, len(lost), held), errors.Join(failed, err)
}
