//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/process"
	"github.com/promptweir/promptweir/examples/bench/internal/toxiproxy"
)

// outage is something that happens to the store.
type outage struct {
	begin, end func() error
	// lasts is how long: a minute if it is 0.
	lasts time.Duration
	// perSecond is how many gets of the limited prompt are answered meanwhile.
	perSecond float64
	tolerance float64
	// waits is how much longer gets with a limit may take as long as it lasts: they wait for the store.
	waits time.Duration
}

// recovery is how long it takes at most until limits hold to the number again: what replicas have counted alone is made up for.
const recovery = 4 * time.Second

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

// checkSlowStore has the store answer after 200 ms, which is too late for any request. Replicas count alone, and together as often as it
// answers.
func checkSlowStore(ctx context.Context, _ *world, s *settings) (string, error) {
	return checkLatency(ctx, s, 200*time.Millisecond, &outage{perSecond: rate, tolerance: toleranceLate})
}

// checkStutteringStore has the store hang for a tenth of a second again and again.
func checkStutteringStore(ctx context.Context, w *world, s *settings) (string, error) {
	until, stop := context.WithCancel(ctx)
	var stuttering sync.WaitGroup
	o := &outage{lasts: 20 * time.Second, perSecond: rate, tolerance: toleranceLate, waits: patienceWithStore + few}
	o.begin = func() error {
		stuttering.Go(func() {
			defer w.store.resume()
			for until.Err() == nil {
				w.store.hang()
				time.Sleep(100 * time.Millisecond)
				w.store.resume()
				time.Sleep(400 * time.Millisecond)
			}
		})
		return nil
	}
	o.end = func() error {
		stop()
		stuttering.Wait()
		return nil
	}
	defer stop()
	return o.check(ctx, w, s)
}

// checkLateStore has the store answer after 20 ms, for which gets with a limit wait.
func checkLateStore(ctx context.Context, _ *world, s *settings) (string, error) {
	const latency = 20 * time.Millisecond
	return checkLatency(ctx, s, latency, &outage{lasts: 20 * time.Second, perSecond: rate, tolerance: tolerance, waits: latency + few})
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

// phases are those of a minute in which something happens to the store: gets of each before it, meanwhile and after it.
type phases struct{ before, meanwhile, after []got }

// check has the outage happen under load: gets with and without limits go on, limits hold as they should, and over all replicas again when it
// is over. A gateway that has no store, behind a HAProxy of its own, gets as much at the same time: what slows it is the machine's doing.
func (o *outage) check(ctx context.Context, w *world, s *settings) (string, error) {
	control, err := w.alone(ctx)
	defer control.close()
	if err != nil {
		return "", err
	}
	loads := []*load{
		w.begin(ctx, "plain.p0000", 200), w.begin(ctx, "plain.counted", 200), control.begin(ctx, "plain.counted", 200),
		w.begin(ctx, "plain.limited", offered),
	}
	length := s.length(12 * time.Second)
	if !s.busy { // otherwise nothing is compared with what was before
		time.Sleep(length)
	}
	broke := time.Now()
	err = o.begin()
	time.Sleep(time.Second) // it is noticed, and full buckets are emptied
	away := time.Now()
	time.Sleep(s.length(cmp.Or(o.lasts, time.Minute)))
	mended := time.Now()
	err = errors.Join(err, o.end(), w.awaitStore())
	here := time.Now()
	time.Sleep(recovery)
	again := time.Now()
	time.Sleep(length)
	until := time.Now()
	var all []phases
	for _, l := range loads {
		gets := l.stop()
		if failed := anyFailure(gets); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s at %s: %w", l.prompt, l.at, failed))
		}
		all = append(all, phases{between(gets, broke.Add(-length), broke), between(gets, broke, mended), between(gets, again, until)})
	}
	if err != nil {
		return "", err
	}
	free, counted, beside, limited := all[0], all[1], all[2], all[3]
	seenAway, err := s.rateWithin(between(limited.meanwhile, away, mended), away, mended, o.perSecond, o.tolerance)
	seenAgain, errAgain := s.rateWithin(limited.after, again, until, rate, tolerance)
	inFlight := between(slices.Concat(counted.before, counted.meanwhile), broke.Add(-patienceWithStore), broke.Add(time.Second))
	seen := fmt.Sprintf("meanwhile %s; in use %.1f s after it, then %s; p99 before, meanwhile, after: %s without limits, %s with one, "+
		"%s at a gateway without a store; slowest of those in flight %v; this program was late by %v (p99)",
		seenAway, here.Sub(mended).Seconds(), seenAgain, free, counted, beside, quantile(inFlight, 100).Round(100*time.Microsecond),
		lateness(slices.Concat(free.meanwhile, counted.meanwhile)))
	err = errors.Join(err, errAgain)
	if s.busy {
		return seen, err
	}
	slowest := max(quantile(counted.before, 100), quantile(beside.meanwhile, 100)) + patienceWithStore + few
	if took := quantile(inFlight, 100); took > slowest {
		err = errors.Join(err, fmt.Errorf("a get in flight then took %v, more than %v", took, slowest))
	}
	return seen, errors.Join(err, free.notSlower(beside, broke, 0), counted.notSlower(beside, broke, o.waits))
}

// patienceWithStore is how long a get waits for the store at most. Few milliseconds more are the machine's.
const patienceWithStore, few = 50 * time.Millisecond, 2 * time.Millisecond

func (p phases) String() string {
	return fmt.Sprintf("%v, %v, %v", p99(p.before), p99(p.meanwhile), p99(p.after))
}

// notSlower returns an error if gets take more than 1.5 times as long as before, or as at a gateway without a store at the same time, and the time
// that they wait for a store that is late.
func (p phases) notSlower(beside phases, from time.Time, waits time.Duration) error {
	usual := max(p99(p.before), p99(beside.meanwhile))
	if most := max(usual*3/2, usual+few) + waits; p99(p.meanwhile) > most {
		second, worst := worstSecond(p.meanwhile, from)
		return fmt.Errorf("the p99 is %v, more than %v; that of second %d is %v", p99(p.meanwhile), most, second, worst)
	}
	return nil
}

// alone returns a world with a gateway that has no store, in front of the same servers. Close must be called, also after an error.
func (w *world) alone(ctx context.Context) (*world, error) {
	a := &world{client: w.client}
	var err error
	if a.dir, err = os.MkdirTemp("", "alone"); err != nil {
		return a, err
	}
	g, err := process.StartGateway(ctx, w.configurationAlone(), w.program)
	if err != nil {
		return a, err
	}
	a.gateways = append(a.gateways, g)
	return a, a.startHAProxy(ctx)
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
