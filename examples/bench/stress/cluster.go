package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/gateway/gatewaytest/history"
	"github.com/promptweir/promptweir/gateway/gatewaytest/light"
)

const (
	// prompts is how many there are, so that a list has many pages.
	prompts = 1000
	// tolerance is how far a rate may be from what is configured, toleranceAlone that of each replica
	// while the store is away, which depends on how evenly requests come.
	tolerance, toleranceAlone = 0.05, 0.15
	// offeredRate is how many gets a second of the limited prompt are sent: more than the replicas
	// admit apart.
	offeredRate = 500
	// blurred is how long replicas on a busy machine, where the store is late now and then, may have
	// counted alone.
	blurred = 300 * time.Millisecond
	// recovery is how long it takes at most until limits hold to the number again.
	recovery = 4 * time.Second
	// storeTimeout is how long a get waits for the store at most. Few milliseconds more are the
	// machine's.
	storeTimeout, few = 50 * time.Millisecond, 2 * time.Millisecond
	// changeInterval is how often the list changes during traffic.
	changeInterval = 700 * time.Millisecond
	// killInterval is how often a replica is killed, and absence how long it is away.
	killInterval, absence = 5 * time.Second, 500 * time.Millisecond
	// blur is how exactly the rig knows when a request began, and a process ended: clients, HAProxy and
	// gateways share the machine.
	blur = 100 * time.Millisecond
)

// scene is three replicas behind HAProxy, and how they are watched.
type scene struct {
	settings *settings
	checks   *checks
	world    *world
	client   *light.Client // of HAProxy
}

// runCluster breaks what three gateways with one store behind HAProxy share, each time with others, and
// prints a row for each.
func (s *settings) runCluster(ctx context.Context) (broken error) {
	fmt.Print("| check | took | seen |\n| --- | --- | --- |\n")
	run := func(name string, proxied bool, check func(sc *scene) (seen string)) {
		if !s.only.MatchString(name) || ctx.Err() != nil {
			return
		}
		began, seen, kept := time.Now(), "", &checks{}
		err := rig.Run(ctx, func(st *rig.Stage) {
			w := newReplicas(st, s, prompts, proxied)
			seen = check(&scene{s, kept, w, w.at(w.front(w.gateways...))})
		})
		if err = errors.Join(err, kept.err()); err != nil {
			broken = errors.Join(broken, fmt.Errorf("%s: %w", name, err))
			seen = "**not kept: " + strings.ReplaceAll(err.Error(), "\n", "; ") + "** " + seen
		}
		fmt.Printf("| %s | %.0f s | %s |\n", name, time.Since(began).Seconds(), seen)
	}
	run("rate", false, checkRate)
	run("rolling restart", false, checkRollingRestart)
	run("replicas are killed", false, checkKilledReplicas)
	for _, o := range outages() {
		run(o.name, o.latency > 0, o.check)
	}
	return broken
}

func limited(g rig.Got) bool {
	refused, ok := errors.AsType[*light.Error](g.Err)
	return ok && refused.Data.Reason == rateLimited
}

// unlimited returns the gets that failed, and no limit explains that.
func unlimited(gets rig.Gots) rig.Gots {
	return gets.Failed().Where(func(g rig.Got) bool { return !limited(g) })
}

func (c *checks) wantNoFailure(gets rig.Gots) {
	if failed := unlimited(gets); len(failed) > 0 {
		c.want(false, "%d of %d gets failed, the first at %s after %v with: %w", len(failed), len(gets),
			failed[0].Began.UTC().Format("15:04:05.000"), failed[0].Took, failed[0].Err)
	}
}

// wantRate wants a number of gets answered each second.
func (sc *scene) wantRate(gets rig.Gots, from, to time.Time, want, tolerance float64) (seen string) {
	within, length := gets.Between(from, to), to.Sub(from).Seconds()
	have := float64(len(within)-len(within.Failed())) / length
	least, most := want*(1-tolerance), want*(1+tolerance)
	if sc.settings.busy {
		least = want / 2 // a bucket is full where nothing comes for a tenth of a second
		most += (replicas*burst + (replicas-1)*rate*blurred.Seconds()) / length
	}
	sc.checks.want(have >= least && have <= most, "%.1f gets a second answered, not %.0f to %.0f", have, least, most)
	return fmt.Sprintf("%.1f of %.0f gets a second answered, limit %.0f", have, float64(len(within))/length, want)
}

func checkRate(sc *scene) string {
	st := sc.world.st
	load := get(st.Context(), sc.client, "plain.limited", offeredRate)
	st.Pause(time.Second) // the burst
	from := time.Now()
	st.Pause(sc.settings.watched(16 * time.Second))
	to, gets := time.Now(), load.Stop()
	sc.checks.wantNoFailure(gets)
	return sc.wantRate(gets, from, to, rate, tolerance)
}

// traffic is what clients do while replicas end: they get prompts without a limit and with one, walk all
// pages, and follow changes, which come as long as it lasts.
type traffic struct {
	sc        *scene
	perSecond float64
	began     time.Time
	// loads are of gets without a limit, gets with one, and walks.
	loads    []*rig.Paced
	audience *light.Audience
	quiet    func()
}

// begin begins traffic with numbers of gets a second.
func (sc *scene) begin(free, limited float64) *traffic {
	w, ctx := sc.world, sc.world.st.Context()
	return &traffic{
		sc: sc, perSecond: free + limited, began: time.Now(),
		loads: []*rig.Paced{
			get(ctx, sc.client, "plain.p00000", free), get(ctx, sc.client, "plain.limited", limited),
			w.walk(ctx, sc.client, 4),
		},
		audience: w.follow(ctx, 6, sc.client.Endpoint),
		quiet:    repeat(changeInterval, func() { w.change() }),
	}
}

// stop ends traffic, wants that no client has missed a change, and returns what the loads and the
// listeners met.
func (t *traffic) stop() (loads []rig.Gots, listeners history.History, seen string) {
	t.quiet()
	missed := await(t.audience, t.sc.world.change(), timeout)
	t.sc.checks.want(missed == nil, "%w", missed)
	for _, l := range t.loads {
		loads = append(loads, l.Stop())
	}
	listeners = t.audience.Stop()
	gets, walks := slices.Concat(loads[0], loads[1]), loads[2]
	have := float64(len(gets)) / time.Since(t.began).Seconds()
	t.sc.checks.want(t.sc.settings.busy || have >= 0.95*t.perSecond,
		"%.0f gets a second instead of %.0f: the machine is too busy", have, t.perSecond)
	return loads, listeners, fmt.Sprintf("%d gets, %.0f a second, of which %d failed, %d whole lists, %d "+
		"operations of listeners that failed", len(gets), have, len(unlimited(gets)),
		len(walks)-len(walks.Failed()), len(listeners.Failed()))
}

// checkRollingRestart restarts one replica after another under load, of which nothing may fail.
func checkRollingRestart(sc *scene) string {
	t := sc.begin(300, 200)
	for _, g := range sc.world.gateways {
		rig.Check(g.Terminate())
		g.Start()
		sc.world.st.Pause(time.Second) // HAProxy sends it requests again
	}
	loads, listeners, seen := t.stop()
	for _, requests := range loads {
		sc.checks.wantNoFailure(requests)
	}
	failed := listeners.Failed()
	sc.checks.want(len(failed) == 0, "listeners failed: %v", failed)
	return seen
}

// checkKilledReplicas kills replicas at random under load, and starts them again. Lost are only requests
// that were in flight there.
func checkKilledReplicas(sc *scene) string {
	st, t, length := sc.world.st, sc.begin(200, 300), 2*time.Minute
	if sc.settings.short {
		length = 20 * time.Second
	}
	type kill struct{ began, ended time.Time }
	var kills []kill
	for until := time.Now().Add(length); time.Now().Add(killInterval).Before(until); {
		g, k := sc.world.gateways[rand.IntN(replicas)], kill{began: time.Now()} //nolint:gosec // need not be secret
		g.Kill()
		k.ended = time.Now()
		st.Pause(absence)
		g.Start()
		kills = append(kills, k)
		st.Pause(killInterval - time.Since(k.began))
	}
	from, to := t.began.Add(time.Second), time.Now() // after the burst
	loads, _, seen := t.stop()
	lost := unlimited(slices.Concat(loads[0], loads[1]))
	for _, g := range lost {
		cut := slices.ContainsFunc(kills, func(k kill) bool {
			return g.Began.Before(k.ended.Add(blur)) && g.Began.Add(g.Took).After(k.began)
		})
		sc.checks.want(cut, "a get was lost that was not in flight when a replica was killed: %w", g.Err)
	}
	answered := loads[1].Where(func(g rig.Got) bool { return g.Err == nil || limited(g) })
	held := sc.wantRate(answered, from, to, rate, tolerance)
	return fmt.Sprintf("%d kills: %s; %d gets lost, in flight around one; %s", len(kills), seen, len(lost), held)
}

// outage is something that happens to the store.
type outage struct {
	name       string
	begin, end func(w *world)
	// lasts is how long: a minute if it is 0.
	lasts time.Duration
	// perSecond is how many gets of the limited prompt are answered meanwhile.
	perSecond, tolerance float64
	// waits is how much longer gets with a limit may take as long as it lasts: they wait for the store.
	waits time.Duration
	// latency is that of the store.
	latency time.Duration
}

// outages are those of the store. Where it answers nothing, limits hold at each replica.
func outages() []outage {
	const alone, late = replicas * rate, 20 * time.Millisecond
	var stop func()
	return []outage{
		{
			name: "store is killed", perSecond: alone, tolerance: toleranceAlone,
			begin: func(w *world) { w.store.process.Kill() }, end: func(w *world) { w.store.start() },
		},
		{
			name: "store hangs", perSecond: alone, tolerance: toleranceAlone,
			begin: func(w *world) { w.store.hang() }, end: func(w *world) { w.store.resume() },
		},
		// Too late for any request: replicas count alone, and nothing is repaid.
		{name: "store is slow", perSecond: alone, tolerance: toleranceAlone, latency: 200 * time.Millisecond},
		// Gets with a limit wait for it.
		{
			name: "store is late", lasts: 20 * time.Second, perSecond: rate, tolerance: tolerance,
			latency: late, waits: late + few,
		},
		{ // too late too often to be trusted in between
			name: "store stutters", lasts: 20 * time.Second, perSecond: alone, tolerance: toleranceAlone,
			waits: storeTimeout + few,
			begin: func(w *world) {
				stop = repeat(400*time.Millisecond, func() {
					w.store.hang()
					time.Sleep(100 * time.Millisecond)
					w.store.resume()
				})
			},
			end: func(*world) { stop() },
		},
		{ // scripts included: all buckets are full again, once
			name: "store is emptied", perSecond: rate, tolerance: tolerance, end: func(*world) {},
			begin: func(w *world) { rig.Check(w.store.command("FLUSHALL", "SCRIPT FLUSH")) },
		},
	}
}

// phases are gets before an outage, meanwhile and after it.
type phases struct{ before, meanwhile, after rig.Gots }

// check has the outage happen under load: gets with and without limits go on, limits hold as they
// should, and over all replicas again when it is over. A gateway that has no store, behind a HAProxy of
// its own, gets as much at the same time: what slows it is the machine's doing.
func (o outage) check(sc *scene) string {
	w, st := sc.world, sc.world.st
	if o.latency > 0 {
		treat := func(n rig.Network) func(*world) {
			return func(w *world) {
				for _, p := range w.proxies {
					p.Treat(rig.Network{}, n)
				}
			}
		}
		o.begin, o.end = treat(rig.Network{Delay: o.latency}), treat(rig.Network{})
	}
	alone := w.at(w.front(st.Gateway(w.configuration(""), nil, w.program)))
	loads := []*rig.Paced{
		get(st.Context(), sc.client, "plain.p00000", 200), get(st.Context(), sc.client, "plain.counted", 200),
		get(st.Context(), alone, "plain.counted", 200), get(st.Context(), sc.client, "plain.limited", offeredRate),
	}
	length := sc.settings.watched(12 * time.Second)
	if !sc.settings.busy { // otherwise nothing is compared with what was before
		st.Pause(length)
	}
	broke := time.Now()
	o.begin(w)
	st.Pause(time.Second) // it is noticed, and full buckets are emptied
	away := time.Now()
	st.Pause(sc.settings.watched(cmp.Or(o.lasts, time.Minute)))
	mended := time.Now()
	o.end(w)
	rig.Check(w.awaitStore())
	used := time.Now()
	st.Pause(recovery)
	again := time.Now()
	st.Pause(length)
	until := time.Now()
	var all []phases
	for _, l := range loads {
		gets := l.Stop()
		sc.checks.wantNoFailure(gets)
		all = append(all, phases{
			gets.Between(broke.Add(-length), broke), gets.Between(broke, mended), gets.Between(again, until),
		})
	}
	free, counted, beside, with := all[0], all[1], all[2], all[3]
	meanwhile := sc.wantRate(with.meanwhile, away, mended, o.perSecond, o.tolerance)
	after := sc.wantRate(with.after, again, until, rate, tolerance)
	inFlight := slices.Concat(counted.before, counted.meanwhile).
		Between(broke.Add(-storeTimeout), broke.Add(time.Second))
	took := inFlight.Quantile(100)
	if !sc.settings.busy {
		most := max(counted.before.Quantile(100), beside.meanwhile.Quantile(100)) + storeTimeout + few
		sc.checks.want(took <= most, "a get in flight then took %v, more than %v", took, most)
		sc.checks.wantNotSlower(free.meanwhile, 0, free.before, beside.meanwhile)
		sc.checks.wantNotSlower(counted.meanwhile, o.waits, counted.before, beside.meanwhile)
	}
	return fmt.Sprintf("meanwhile %s; in use %.1f s after it, then %s; p99 before, meanwhile, after: %s without "+
		"limits, %s with one, %s at a gateway without a store; slowest of those in flight %s", meanwhile,
		used.Sub(mended).Seconds(), after, free, counted, beside, rig.Milliseconds(took))
}

func (p phases) String() string {
	return fmt.Sprintf("%s, %s, %s", rig.Milliseconds(p.before.Quantile(99)),
		rig.Milliseconds(p.meanwhile.Quantile(99)), rig.Milliseconds(p.after.Quantile(99)))
}

// wantNotSlower wants a p99 of at most 1.5 times the usual one, which is the largest of others, and the
// time that gets wait for a store that is late.
func (c *checks) wantNotSlower(gets rig.Gots, waits time.Duration, others ...rig.Gots) {
	p99, usual := gets.Quantile(99), time.Duration(0)
	for _, other := range others {
		usual = max(usual, other.Quantile(99))
	}
	most := max(usual*3/2, usual+few) + waits
	c.want(p99 <= most, "the p99 is %v, more than %v", p99, most)
}
