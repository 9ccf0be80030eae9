package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

const (
	// tolerance is how far a rate may be from what is configured, toleranceAlone that of each replica while the store is away, which
	// depends on how evenly requests come.
	tolerance      = 0.05
	toleranceAlone = 0.15
	// offeredRate is how many gets a second of the limited prompt are sent: more than the replicas admit apart.
	offeredRate = 500
	// blurred is how long replicas on a busy machine, where the store is late now and then, may have counted alone.
	blurred = 300 * time.Millisecond
	// recovery is how long it takes at most until limits hold to the number again.
	recovery = 4 * time.Second
	// storeTimeout is how long a get waits for the store at most. Few milliseconds more are the machine's.
	storeTimeout, few = 50 * time.Millisecond, 2 * time.Millisecond
)

func (w *world) begin(ctx context.Context, prompt string, perSecond int) *rig.Paced {
	return rig.Pace(ctx, perSecond, func(ctx context.Context) error { return w.client.Get(ctx, prompt) })
}

func limited(err error) bool {
	refused, ok := errors.AsType[*rig.Error](err)
	return ok && refused.Data.Reason == rateLimited
}

// unlimited returns the gets that failed, and no limit explains that.
func unlimited(gets []rig.Got) []rig.Got {
	return slices.DeleteFunc(failures(gets), func(g rig.Got) bool { return limited(g.Err) })
}

func anyFailure(gets []rig.Got) error {
	if failed := unlimited(gets); len(failed) > 0 {
		return fmt.Errorf("%d of %d gets failed, the first at %s after %v with: %w", len(failed), len(gets),
			failed[0].Began.UTC().Format("15:04:05.000"), failed[0].Took, failed[0].Err)
	}
	return nil
}

func (s *settings) rateWithin(gets []rig.Got, from, to time.Time, want, tolerance float64) (string, error) {
	within := rig.Between(gets, from, to)
	if err := anyFailure(within); err != nil {
		return "", err
	}
	length := to.Sub(from).Seconds()
	have := float64(len(within)-len(failures(within))) / length
	least, most := want*(1-tolerance), want*(1+tolerance)
	if s.busy {
		least = want / 2 // a bucket is full where nothing comes for a tenth of a second
		most += (replicas*burst + (replicas-1)*rate*blurred.Seconds()) / length
	}
	seen := fmt.Sprintf("%.1f of %.0f gets a second answered, limit %.0f", have, float64(len(within))/length, want)
	if have < least || have > most {
		return seen, fmt.Errorf("%.1f gets a second answered, not %.0f to %.0f", have, least, most)
	}
	return seen, nil
}

func checkRate(ctx context.Context, w *world, s *settings) (string, error) {
	l := w.begin(ctx, "plain.limited", offeredRate)
	time.Sleep(time.Second) // the burst
	from := time.Now()
	time.Sleep(s.watched(16 * time.Second))
	to := time.Now()
	return s.rateWithin(l.Stop(), from, to, rate, tolerance)
}

// checkConcurrency sends gets one after another over as many connections as there are slots, none of which may be refused, and to one
// replica over more, of which some must be: each replica counts its own.
func checkConcurrency(ctx context.Context, w *world, s *settings) (string, error) {
	count := func(c *rig.Client, connections int) (all, refused int, err error) {
		var (
			wait sync.WaitGroup
			mu   sync.Mutex
		)
		until := time.Now().Add(s.watched(4 * time.Second))
		for range connections {
			wait.Go(func() {
				for time.Now().Before(until) {
					failed := c.Get(ctx, "plain.slots")
					mu.Lock()
					all++
					if limited(failed) {
						refused++
					} else if failed != nil {
						err = failed
					}
					mu.Unlock()
				}
			})
		}
		wait.Wait()
		return all, refused, err
	}
	few, refusedOfFew, err := count(&w.client, slots)
	many, refused, errMany := count(w.at(0), 10*slots)
	seen := fmt.Sprintf("%d of %d gets refused over %d connections; %d of %d over %d to one replica", refusedOfFew, few, slots, refused, many, 10*slots)
	mayBe := 0
	if s.busy { // where a replica is late a slot is given back a moment later
		mayBe = few / 20
	}
	if err = errors.Join(err, errMany); err == nil && (refusedOfFew > mayBe || refused == 0) {
		err = errors.New("want none over as many connections as there are slots, and some over ten times as many")
	}
	return seen, err
}

// outage is something that happens to the store.
type outage struct {
	name       string
	begin, end func(w *world) error
	// lasts is how long: a minute if it is 0.
	lasts time.Duration
	// perSecond is how many gets of the limited prompt are answered meanwhile.
	perSecond float64
	tolerance float64
	// waits is how much longer gets with a limit may take as long as it lasts: they wait for the store.
	waits time.Duration
	// latency is that of the store, in a world of its own.
	latency time.Duration
}

// outages are those of the store. Where it answers nothing, limits hold at each replica.
func outages() (all []check) {
	const alone = replicas * rate
	hang := func(w *world) error { w.store.hang(); return nil }
	resume := func(w *world) error { w.store.resume(); return nil }
	var stutter chan struct{}
	for _, o := range []*outage{
		{
			name: "store is killed", perSecond: alone, tolerance: toleranceAlone,
			begin: func(w *world) error { w.store.kill(); return nil }, end: func(w *world) error { return w.store.start() },
		},
		{name: "store hangs", perSecond: alone, tolerance: toleranceAlone, begin: hang, end: resume},
		// Too late for any request: replicas count alone, and together as often as it answers.
		{name: "store is slow", perSecond: rate, tolerance: tolerance, latency: 200 * time.Millisecond},
		// Gets with a limit wait for it.
		{name: "store is late", lasts: 20 * time.Second, perSecond: rate, tolerance: tolerance, latency: 20 * time.Millisecond, waits: 20*time.Millisecond + few},
		{
			name: "store stutters", lasts: 20 * time.Second, perSecond: rate, tolerance: tolerance, waits: storeTimeout + few,
			begin: func(w *world) error {
				stutter = make(chan struct{})
				go func() {
					for {
						w.store.hang()
						time.Sleep(100 * time.Millisecond)
						w.store.resume()
						select {
						case <-time.After(400 * time.Millisecond):
						case stutter <- struct{}{}: // the end, which waits for this
							return
						}
					}
				}()
				return nil
			},
			end: func(*world) error { <-stutter; return nil },
		},
		{ // scripts included: all buckets are full again, once
			name: "store is emptied", perSecond: rate, tolerance: tolerance, end: func(*world) error { return nil },
			begin: func(w *world) error {
				return errors.Join(w.store.command("FLUSHALL", "+OK"), w.store.command("SCRIPT FLUSH", "+OK"))
			},
		},
	} {
		all = append(all, check{o.name, o.run})
	}
	return all
}

func (o *outage) run(ctx context.Context, w *world, s *settings) (string, error) {
	if o.latency == 0 {
		return o.check(ctx, w, s)
	}
	apart, err := newWorld(ctx, s, true)
	defer apart.close()
	if err != nil {
		return "", err
	}
	late := rig.Toxic{Type: "latency", Stream: "downstream", Attributes: map[string]int{"latency": int(o.latency.Milliseconds())}}
	o.begin = func(w *world) error { return w.toxiproxy.Add(ctx, "store", late) }
	o.end = func(w *world) error { return w.toxiproxy.Remove(ctx, "store", late) }
	return o.check(ctx, apart, s)
}

// phases are those of a minute in which something happens to the store: gets of each before it, meanwhile and after it.
type phases struct{ before, meanwhile, after []rig.Got }

// check has the outage happen under load: gets with and without limits go on, limits hold as they should, and over all replicas again when it
// is over. A gateway that has no store, behind a HAProxy of its own, gets as much at the same time: what slows it is the machine's doing.
func (o *outage) check(ctx context.Context, w *world, s *settings) (string, error) {
	control, err := w.alone(ctx)
	defer control.close()
	if err != nil {
		return "", err
	}
	loads := []*rig.Paced{
		w.begin(ctx, "plain.p00000", 200), w.begin(ctx, "plain.counted", 200), control.begin(ctx, "plain.counted", 200),
		w.begin(ctx, "plain.limited", offeredRate),
	}
	length := s.watched(12 * time.Second)
	if !s.busy { // otherwise nothing is compared with what was before
		time.Sleep(length)
	}
	broke := time.Now()
	err = o.begin(w)
	time.Sleep(time.Second) // it is noticed, and full buckets are emptied
	away := time.Now()
	time.Sleep(s.watched(cmp.Or(o.lasts, time.Minute)))
	mended := time.Now()
	err = errors.Join(err, o.end(w), w.awaitStore())
	used := time.Now()
	time.Sleep(recovery)
	again := time.Now()
	time.Sleep(length)
	until := time.Now()
	var all []phases
	for _, l := range loads {
		gets := l.Stop()
		err = errors.Join(err, anyFailure(gets))
		all = append(all, phases{rig.Between(gets, broke.Add(-length), broke), rig.Between(gets, broke, mended), rig.Between(gets, again, until)})
	}
	if err != nil {
		return "", err
	}
	free, counted, beside, with := all[0], all[1], all[2], all[3]
	meanwhile, err := s.rateWithin(with.meanwhile, away, mended, o.perSecond, o.tolerance)
	after, errAfter := s.rateWithin(with.after, again, until, rate, tolerance)
	inFlight := rig.Between(slices.Concat(counted.before, counted.meanwhile), broke.Add(-storeTimeout), broke.Add(time.Second))
	took := rig.QuantileOf(inFlight, 100)
	seen := fmt.Sprintf("meanwhile %s; in use %.1f s after it, then %s; p99 before, meanwhile, after: %s without limits, %s with one, "+
		"%s at a gateway without a store; slowest of those in flight %s", meanwhile, used.Sub(mended).Seconds(), after, free, counted, beside, rig.Milliseconds(took))
	err = errors.Join(err, errAfter)
	if s.busy {
		return seen, err
	}
	most := max(rig.QuantileOf(counted.before, 100), rig.QuantileOf(beside.meanwhile, 100)) + storeTimeout + few
	if took > most {
		err = errors.Join(err, fmt.Errorf("a get in flight then took %v, more than %v", took, most))
	}
	return seen, errors.Join(err, free.notSlower(beside, 0), counted.notSlower(beside, o.waits))
}

func (p phases) String() string {
	return fmt.Sprintf("%s, %s, %s", rig.Milliseconds(rig.QuantileOf(p.before, 99)), rig.Milliseconds(rig.QuantileOf(p.meanwhile, 99)), rig.Milliseconds(rig.QuantileOf(p.after, 99)))
}

// notSlower returns an error if gets take more than 1.5 times as long as before, or as at a gateway without a store at the same time, and the time
// that they wait for a store that is late.
func (p phases) notSlower(beside phases, waits time.Duration) error {
	usual, p99 := max(rig.QuantileOf(p.before, 99), rig.QuantileOf(beside.meanwhile, 99)), rig.QuantileOf(p.meanwhile, 99)
	if most := max(usual*3/2, usual+few) + waits; p99 > most {
		return fmt.Errorf("the p99 is %v, more than %v", p99, most)
	}
	return nil
}
