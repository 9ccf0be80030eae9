// Package simulation runs whole gateways, their store, servers and clients in bubbles of virtual
// time, with a network and faults that are drawn from a seed, and checks what the clients recorded:
// make simulation.
package simulation_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/gatewaytest/history"
	"github.com/promptweir/promptweir/gateway/gatewaytest/light"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

var (
	histories = flag.Int("histories", 0, "how many are checked")                        //nolint:gochecknoglobals // flags
	first     = flag.Uint64("seed", 1, "the seed of the first")                         //nolint:gochecknoglobals // as above
	want      = flag.String("want", "", "the letter of a violation that must be found") //nolint:gochecknoglobals // as above
)

// model is what is promised here.
var model = history.Model{ //nolint:gochecknoglobals // a constant
	Replicas: replicas, Again: 3 * time.Second, Aftermath: reached,
	Limits: []history.Limit{{Prompt: light.Limited, Rate: rate, Burst: burst}},
}

// current is how long after the last fault nobody may hold an old list, and reached the same where a
// server was away, to which a gateway connects again within ten seconds.
const current, reached = 5 * time.Second, 11 * time.Second

// dice is safe for concurrent use.
type dice struct {
	mu  sync.Mutex
	rng *rand.Rand
}

// n returns a number below n.
func (d *dice) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

// span returns a time up to one.
func (d *dice) span(most time.Duration) time.Duration { return time.Duration(d.n(int(most))) }

// delay is that of a network: little, and now and then that of a segment that was lost.
func (d *dice) delay() time.Duration {
	if d.n(50) == 0 {
		return 200*time.Millisecond + d.span(400*time.Millisecond)
	}
	return d.span(3 * time.Millisecond)
}

// step is something that happens, and the pause after it.
type step struct {
	name  string
	which int
	lasts time.Duration
	pause time.Duration
}

func (s step) String() string {
	return fmt.Sprintf("%s %d for %v, then %v", s.name, s.which, s.lasts.Round(time.Millisecond), s.pause.Round(time.Millisecond))
}

// faults are what breaks a replica or a server, by name, and what mends it.
func faults() map[string]func(w *world, which int) (mend func()) {
	link := func(of func(w *world, which int) *bubble.Link, how func(*bubble.Link)) func(*world, int) func() {
		return func(w *world, which int) func() {
			l := of(w, which)
			how(l)
			return l.Heal
		}
	}
	store := func(w *world, which int) *bubble.Link { return &w.replicas[which%replicas].store }
	upstream := func(w *world, which int) *bubble.Link { return &w.servers[w.labels()[which%2]].link }
	both := func(l *bubble.Link) { l.Hang(bubble.Forth, bubble.Back) }
	return map[string]func(*world, int) func(){
		"store cut":               link(store, (*bubble.Link).Cut),
		"store hangs":             link(store, both),
		"store hears nothing":     link(store, func(l *bubble.Link) { l.Hang(bubble.Forth) }),
		"store answers late":      link(store, func(l *bubble.Link) { l.Hang(bubble.Back) }),
		"server cut":              link(upstream, (*bubble.Link).Cut),
		"server hangs":            link(upstream, both),
		"server answers late":     link(upstream, func(l *bubble.Link) { l.Hang(bubble.Back) }),
		"clients' connections":    link(func(w *world, which int) *bubble.Link { return &w.replicas[which%replicas].clients }, (*bubble.Link).Cut),
		"server forgets sessions": func(w *world, which int) func() { w.servers[w.labels()[which%2]].Forget(); return func() {} },
		"store emptied":           func(w *world, _ int) func() { w.store.FlushAll(); return func() {} },
		"replica killed": func(w *world, which int) func() {
			r := w.replicas[which%replicas]
			r.kill()
			return func() { r.store.Heal(); w.start(r) }
		},
	}
}

// schedule returns what happens in the history of a seed.
func schedule(seed uint64) (steps []step) {
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // to be repeated
	span := func(most time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(most))) }
	var names []string
	for name := range faults() {
		names = append(names, name)
	}
	slices.Sort(names)
	for range 3 + rng.IntN(5) {
		s := step{which: rng.IntN(2), pause: span(1500 * time.Millisecond)}
		switch n := rng.IntN(10); {
		case n < 1:
			s.name = "goes back"
		case n < 4:
			s.name = "change"
		case n < 5:
			s.name = "entry moves"
		case n < 6:
			s.name, s.lasts = "reload", span(2*time.Second)
		default:
			s.name, s.lasts = names[rng.IntN(len(names))], span(4*time.Second)
		}
		steps = append(steps, s)
	}
	return steps
}

// live has the steps happen, a fault beside what follows it, and then waits until all is quiet.
func (w *world) live(steps []step) {
	broken := faults()
	time.Sleep(2 * time.Second)
	w.change(w.servers["plain"])
	time.Sleep(time.Second)
	var mended sync.WaitGroup
	var mu sync.Mutex
	open := map[string]bool{}
	for _, s := range steps {
		server := w.servers[w.labels()[s.which]]
		switch s.name {
		case "change":
			w.change(server)
		case "goes back":
			server.GoBack(w.audience.Recorder)
			time.Sleep(s.pause)
			w.change(server)
		case "entry moves": // one server has it at any time
			server.Owns, w.servers[w.labels()[1-s.which]].Owns = true, true
			w.change(server)
			time.Sleep(s.pause)
			w.servers[w.labels()[1-s.which]].Owns = false
			w.change(w.servers[w.labels()[1-s.which]])
		case "reload":
			mended.Wait() // of a replica that is killed
			w.reload(s.lasts, 0)
		default:
			key := fmt.Sprint(s.name, s.which)
			mu.Lock()
			again := open[key] || s.name == "replica killed" && len(open) > 0
			if !again {
				open[key] = true
				w.audience.Note(history.Op{Name: history.Fault, Of: s.name, At: 1 + s.which}, time.Now(), nil)
			}
			mu.Unlock()
			if again {
				continue
			}
			mend := broken[s.name](w, s.which)
			mended.Go(func() {
				time.Sleep(s.lasts)
				mend()
				mu.Lock()
				defer mu.Unlock()
				if delete(open, key); len(open) == 0 {
					w.audience.Note(history.Op{Name: history.Healed}, time.Now(), nil)
				}
			})
		}
		time.Sleep(s.pause)
	}
	mended.Wait()
	time.Sleep(current)
	if slices.ContainsFunc(steps, func(s step) bool { return strings.HasPrefix(s.name, "server") }) {
		for rest := reached - current; rest > 0 && w.isBehind(); rest -= time.Second {
			time.Sleep(time.Second)
		}
	}
	w.audience.Note(history.Op{Name: history.Quiet}, time.Now(), nil)
}

// failed are seeds that have found something, each with the commit that mended it in PROOF.md.
var failed = []uint64{36, 9329} //nolint:gochecknoglobals // a constant

// TestSimulation_KeepsWhatIsPromised needs the overlay of .ci/plant network.
func TestSimulation_KeepsWhatIsPromised(t *testing.T) {
	if *histories == 0 {
		t.Skip("run it with make simulation")
	}
	bubble.Dial = dial
	s := simulation{configs: configurations(t)}
	seeds := slices.Clone(failed)
	for i := range uint64(*histories) {
		seeds = append(seeds, *first+i)
	}
	t.Run("seed", func(t *testing.T) {
		for _, seed := range seeds {
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				t.Parallel()
				s.check(t, seed)
			})
		}
	})
	t.Logf("%d histories, %d operations, %d violations", s.histories.Load(), s.operations.Load(), s.violations.Load())
	if *want != "" && s.violations.Load() == 0 {
		t.Errorf("no violation of %s", *want)
	}
	for _, kind := range []string{history.List, history.Get, history.Complete, "read skill", "read promptweir"} {
		if _, ok := s.answered.Load(kind); !ok && s.histories.Load() >= 100 {
			t.Errorf("no history has an answer to %s", kind)
		}
	}
}

// simulation counts what is checked.
type simulation struct {
	configs                           []*config.Config
	histories, operations, violations atomic.Int64
	// answered has each kind of operation that gateways answered: what they always refuse shows nothing.
	answered sync.Map
}

// check checks the history of a seed. Of one that shows a violation, it looks for a shorter
// schedule, which says more.
func (s *simulation) check(t *testing.T, seed uint64) {
	if *want != "" && s.violations.Load() > 0 {
		return
	}
	steps := schedule(seed)
	found := s.run(t, seed, steps)
	if *want != "" {
		if i := slices.IndexFunc(found, func(v history.Violation) bool { return v.Letter == *want }); i >= 0 {
			s.violations.Add(1)
			t.Logf("seed %d, found in history %d: %v", seed, s.histories.Load(), found[i])
		}
		return
	}
	if len(found) == 0 {
		return
	}
	s.violations.Add(1)
	for i := 0; i < len(steps); {
		fewer := slices.Delete(slices.Clone(steps), i, i+1)
		shorter := s.run(t, seed, fewer)
		if slices.ContainsFunc(shorter, func(v history.Violation) bool { return v.Letter == found[0].Letter }) {
			steps, found = fewer, shorter
		} else {
			i++
		}
	}
	t.Errorf("seed %d, schedule %v:\n%v", seed, steps, found[0])
}

// run has a world live through a schedule in a bubble, and checks its history.
func (s *simulation) run(t *testing.T, seed uint64, steps []step) (found []history.Violation) {
	synctest.Test(t, func(t *testing.T) {
		h := run(t, int(seed), seed, s.configs, steps) //nolint:gosec // a number
		found = model.Check(h)
		s.histories.Add(1)
		s.operations.Add(int64(len(h)))
		for _, o := range h {
			if scheme, _, ok := strings.Cut(o.Of, "://"); ok {
				o.Name += " " + scheme
			}
			if o.Error == "" {
				s.answered.Store(o.Name, true)
			}
		}
	})
	return found
}
