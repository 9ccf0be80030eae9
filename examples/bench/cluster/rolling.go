//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/process"
)

// traffic is what clients do while replicas end or change: they get prompts without a limit and with one, walk all pages, and follow changes,
// which come as long as it lasts. Stop ends it.
type traffic struct {
	w             *world
	perSecond     int // of gets
	free, limited *load
	followers     *followers
	began         time.Time

	stopping chan struct{}
	pending  sync.WaitGroup
	// walks counts the lists, and err is what went wrong with one. Both are complete after stop.
	walks int
	err   error
}

// changeInterval is how often the list changes during traffic.
const changeInterval = 700 * time.Millisecond

// beginTraffic begins it with numbers of gets a second. If again, a page or stream that fails is asked for once more, because replicas are
// killed.
func (w *world) beginTraffic(ctx context.Context, free, limited int, again bool) *traffic {
	t := &traffic{w: w, perSecond: free + limited, began: time.Now(), stopping: make(chan struct{})}
	t.free, t.limited = w.begin(ctx, "plain.p0000", free), w.begin(ctx, "plain.limited", limited)
	t.followers = w.follow(ctx, 3, again)
	t.pending.Go(func() {
		for !t.isStopping(0) {
			names, err := w.walk(ctx, again)
			if err == nil {
				err = complete(names)
			}
			if err != nil {
				t.err = errors.Join(t.err, err)
			}
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

// isStopping waits for a time, or until the traffic is to stop.
func (t *traffic) isStopping(wait time.Duration) bool {
	select {
	case <-t.stopping:
		return true
	case <-time.After(wait):
		return false
	}
}

// seenTraffic is what traffic has met.
type seenTraffic struct {
	free, limited []got
	walks         int
	// ended are the streams that ended in the way of their revision, cut the others.
	ended, cut int
	took       time.Duration
}

func (s *seenTraffic) String() string {
	return fmt.Sprintf("%d gets, %.0f a second, of which %d failed, %d whole lists, %d streams that ended with their closing result and %d that "+
		"were cut, in %.1f s", len(s.free)+len(s.limited), s.rate(), len(failures(s.free))+len(failures(s.limited)), s.walks, s.ended, s.cut,
		s.took.Seconds())
}

// rate returns how many gets there were a second.
func (s *seenTraffic) rate() float64 { return float64(len(s.free)+len(s.limited)) / s.took.Seconds() }

// stop ends the traffic. An error means that a list was not whole, or that a client has missed a change.
func (t *traffic) stop() (*seenTraffic, error) {
	close(t.stopping)
	t.pending.Wait()
	_, missed := t.followers.await(t.w.change())
	s := &seenTraffic{walks: t.walks}
	s.free, s.limited = t.free.stop(), t.limited.stop()
	s.took = time.Since(t.began)
	s.ended = t.followers.sum(func(f *follower) int { return f.ended })
	s.cut = t.followers.sum(func(f *follower) int { return f.cut })
	return s, errors.Join(t.err, missed, t.followers.stop())
}

// restart ends a replica as a process manager does, and starts it again at the same addresses.
func (w *world) restart(ctx context.Context, i int, upstream string) error {
	g := w.gateways[i]
	listen, admin := addresses(g)
	if err := g.Terminate(); err != nil {
		return err
	}
	next, err := w.startGateway(ctx, listen, admin, upstream)
	if err != nil {
		return err
	}
	w.gateways[i] = next
	time.Sleep(time.Second) // HAProxy sends it requests again
	return nil
}

// checkRollingRestart restarts one gateway after another, at the same addresses.
func checkRollingRestart(ctx context.Context, w *world, s *settings) (string, error) {
	t := w.beginTraffic(ctx, 300, 200, false)
	var failed error
	for i := range w.gateways {
		if failed = w.restart(ctx, i, w.plain.block()); failed != nil {
			break
		}
	}
	return t.none(failed, s)
}

// none ends traffic of which nothing may have failed, and which was as much as it was to be.
func (t *traffic) none(failed error, s *settings) (string, error) {
	seen, err := t.stop()
	if failed = errors.Join(failed, err, anyFailure(seen.free), anyFailure(seen.limited)); failed == nil && seen.cut > 0 {
		failed = errors.New("streams were cut")
	}
	if !s.busy && seen.rate() < 0.95*float64(t.perSecond) {
		failed = errors.Join(failed, fmt.Errorf("%.0f gets a second instead of %d: the machine is too busy", seen.rate(), t.perSecond))
	}
	return seen.String(), failed
}

// checkRollingChange changes the configuration of one gateway after another by a reload, and back by a restart: the upstream has another
// address and other headers.
func checkRollingChange(ctx context.Context, w *world, s *settings) (string, error) {
	t := w.beginTraffic(ctx, 480, 20, false)
	reload := func(g *process.Gateway) error { return g.Reload(ctx, w.configurationOf(g, w.other.block())) }
	err := w.roll(ctx, "plain", "other", func(i int) error { return reload(w.gateways[i]) })
	if err == nil {
		err = w.roll(ctx, "other", "plain", func(i int) error { return w.restart(ctx, i, w.plain.block()) })
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

// listsOnly returns an error if a replica lists something else than what one server offers, after patience.
func (w *world) listsOnly(ctx context.Context, replica int, server string) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		names, err := w.at(replica).walk(ctx, false)
		if err != nil {
			return err
		}
		servers := map[string]bool{}
		for name := range names {
			if _, server, ok := markOf(name); ok {
				servers[server] = true
			}
		}
		switch {
		case len(servers) == 1 && servers[server]:
			return nil
		case len(servers) > 1 || time.Now().After(deadline):
			return fmt.Errorf("replica %d lists what %s offers, want %s", replica+1, strings.Join(slices.Sorted(maps.Keys(servers)), " and "), server)
		}
	}
}
