//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/toxiproxy"
)

// outage is something that happens to the store.
type outage struct {
	begin, end func() error
	// perSecond is how many gets of the limited prompt are answered meanwhile.
	perSecond float64
	tolerance float64
	// waits is how much longer gets with a limit may take as long as it lasts: they wait for the store.
	waits time.Duration
}

// alone is an outage in which limits hold at each replica.
func alone(begin, end func() error) *outage {
	return &outage{begin: begin, end: end, perSecond: replicas * rate, tolerance: toleranceAlone}
}

func checkKilledStore(ctx context.Context, w *world, s *settings) (string, error) {
	return alone(func() error { w.store.kill(); return nil }, w.store.start).check(ctx, w, s)
}

func checkHungStore(ctx context.Context, w *world, s *settings) (string, error) {
	return alone(func() error { w.store.hang(); return nil }, func() error { w.store.resume(); return nil }).check(ctx, w, s)
}

// checkEmptiedStore empties the store, scripts included: all buckets are full again, once.
func checkEmptiedStore(ctx context.Context, w *world, s *settings) (string, error) {
	empty := func() error { return errors.Join(w.store.command("FLUSHALL"), w.store.command("SCRIPT FLUSH")) }
	o := &outage{begin: empty, end: func() error { return nil }, perSecond: rate, tolerance: tolerance}
	return o.check(ctx, w, s)
}

// checkSlowStore has the store answer after 200 ms, which is too late for any request.
func checkSlowStore(ctx context.Context, _ *world, s *settings) (string, error) {
	return checkLatency(ctx, s, 200*time.Millisecond, alone(nil, nil))
}

// checkLateStore has the store answer after 20 ms, for which gets with a limit wait.
func checkLateStore(ctx context.Context, _ *world, s *settings) (string, error) {
	const latency = 20 * time.Millisecond
	return checkLatency(ctx, s, latency, &outage{perSecond: rate, tolerance: tolerance, waits: latency})
}

// checkLatency checks, in a world of its own, an outage in which the store's responses are late.
func checkLatency(ctx context.Context, s *settings, latency time.Duration, o *outage) (string, error) {
	w, err := newWorld(ctx, s, design{replicas: replicas, toxiproxy: true})
	defer w.close()
	if err != nil {
		return "", err
	}
	late := toxiproxy.Toxic{Type: "latency", Stream: "downstream", Attributes: map[string]int{"latency": int(latency.Milliseconds())}}
	o.begin = func() error { return w.toxiproxy.Add(ctx, "store", late) }
	o.end = func() error { return w.toxiproxy.Remove(ctx, "store", late) }
	seen, err := o.check(ctx, w, s)
	if err != nil {
		w.writeLogs()
	}
	return seen, err
}

// check has the outage happen under load for a minute: gets with and without limits go on, limits hold as they should, and over all
// replicas again when it is over.
func (o *outage) check(ctx context.Context, w *world, s *settings) (string, error) {
	free, counted, limited := w.begin(ctx, "plain.p0000", 200), w.begin(ctx, "plain.counted", 200), w.begin(ctx, "plain.limited", offered)
	length := s.length(12 * time.Second)
	time.Sleep(length)
	broke := time.Now()
	err := o.begin()
	time.Sleep(time.Second) // it is noticed, and full buckets are emptied
	away := time.Now()
	time.Sleep(s.length(time.Minute))
	mended := time.Now()
	err = errors.Join(err, o.end(), w.awaitStore())
	here := time.Now()
	time.Sleep(time.Second)
	again := time.Now()
	time.Sleep(length)
	until := time.Now()
	without, with, some := free.stop(), counted.stop(), limited.stop()
	if err := errors.Join(err, anyFailure(without), anyFailure(with), anyFailure(some)); err != nil {
		return "", err
	}
	seenAway, err := rateWithin(some, away, mended, o.perSecond, o.tolerance)
	seenAgain, errAgain := rateWithin(some, again, until, rate, tolerance)
	before := func(gets []got) []got { return between(gets, broke.Add(-length), broke) }
	during := func(gets []got) []got { return between(gets, broke.Add(-patienceWithStore), mended) }
	slowest := quantile(during(with), 100)
	seen := fmt.Sprintf("meanwhile %s; %.1f s after it: %s; p99 without limits %v before, %v meanwhile; with one that is not reached %v and %v, slowest %v",
		seenAway, here.Sub(mended).Seconds(), seenAgain, p99(before(without)), p99(during(without)), p99(before(with)), p99(during(with)),
		slowest.Round(100*time.Microsecond))
	err = errors.Join(err, errAgain)
	if s.busy {
		return seen, err
	}
	return seen, errors.Join(err, notSlower(before(without), during(without), 0), notSlower(before(with), during(with), o.waits))
}

// patienceWithStore is how long a get waits for the store at most.
const patienceWithStore = 50 * time.Millisecond

func p99(gets []got) time.Duration { return quantile(gets, 99).Round(100 * time.Microsecond) }

// notSlower returns an error if gets take more than 1.5 times as long as before, and the time that they wait for a store that is late. A few
// milliseconds more are the machine's.
func notSlower(before, now []got, waits time.Duration) error {
	const few = 5 * time.Millisecond
	if most := max(p99(before)*3/2, p99(before)+few) + waits; p99(now) > most {
		return fmt.Errorf("the p99 is %v, more than %v", p99(now), most)
	}
	if most := quantile(before, 100) + patienceWithStore + few; quantile(now, 100) > most {
		return fmt.Errorf("the slowest get took %v, more than %v", quantile(now, 100), most)
	}
	return nil
}

// awaitStore waits until each replica uses the store again.
func (w *world) awaitStore() error {
	for deadline := time.Now().Add(2 * patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		here := 0
		for _, g := range w.gateways {
			if inUse(g.Log()) {
				here++
			}
		}
		if here == len(w.gateways) {
			return nil
		}
	}
	return errors.New("the store is not in use again after 20 s")
}
