package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"syscall"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

const (
	// listeners are clients whose history is recorded.
	listeners = 30
	// current is how long after everything is healed nobody may hold an old list.
	current = 5 * time.Second
	// busyCurrent is the same where durations say nothing.
	busyCurrent = 40 * time.Second
	// answerTimeout is how long a listener waits for a replica that may be stopped.
	answerTimeout = 2 * time.Second
)

// trouble is a fault of the replicas or their store, which begins at one of the replicas.
type trouble struct {
	name       string
	lasts      time.Duration
	begin, end func(w *world, replica int)
}

func troubles() []trouble {
	stopped := func(lasts time.Duration) trouble {
		return trouble{
			"replica stopped for " + lasts.String(), lasts,
			func(w *world, i int) { w.gateways[i].Signal(syscall.SIGSTOP) },
			func(w *world, i int) { w.gateways[i].Signal(syscall.SIGCONT) },
		}
	}
	nothing := func(*world, int) {}
	empty := func(w *world, _ int) { rig.Check(w.store.command("FLUSHALL")) }
	cut := rig.Network{Lost: true}
	var mend func()
	return []trouble{
		{"none", time.Second, nothing, nothing},
		{
			"replica killed", 3 * time.Second,
			func(w *world, i int) { w.gateways[i].Kill() }, func(w *world, i int) { w.gateways[i].Start() },
		},
		stopped(4500 * time.Millisecond), stopped(10 * time.Second), stopped(40 * time.Second),
		{
			"store killed", current,
			func(w *world, _ int) { w.store.process.Kill() }, func(w *world, _ int) { w.store.start() },
		},
		{
			"store hung", current,
			func(w *world, _ int) { w.store.hang() }, func(w *world, _ int) { w.store.resume() },
		},
		{"store emptied", 100 * time.Millisecond, empty, empty},
		{
			"store cut from a replica", current, func(w *world, i int) { w.proxies[i].Treat(cut, cut) },
			func(w *world, i int) { w.proxies[i].Treat(rig.Network{}, rig.Network{}) },
		},
		{
			"connections cut", 3 * time.Second,
			func(w *world, _ int) {
				mend = repeat(20*time.Millisecond, func() {
					_ = w.store.command("CLIENT KILL TYPE normal", "CLIENT KILL TYPE pubsub")
				})
			},
			func(*world, int) { mend() },
		},
	}
}

// runHistories lets replicas and their store fail while clients listen, changes the list within each
// fault, and checks what they have listed 5 s after it.
func (s *settings) runHistories(ctx context.Context) (broken error) {
	err := rig.Run(ctx, func(st *rig.Stage) {
		w := newReplicas(st, s, 20, true)
		w.client.Transport = &http.Transport{
			MaxIdleConnsPerHost: listeners, ResponseHeaderTimeout: answerTimeout,
		}
		a := w.follow(ctx, listeners, w.endpoints()...)
		st.Defer(func() { a.stop() })
		rig.Check(a.await(w.change(), timeout))
		fmt.Print("| fault | times | clients that were stale, told in vain | slowest list |\n" +
			"| --- | --- | --- | --- |\n")
		for _, t := range troubles() {
			if s.short && t.lasts > current || !s.only.MatchString(t.name) {
				continue
			}
			stale, vain, slowest := 0, 0, time.Duration(0)
			for range s.times {
				r := t.round(w, a, s)
				stale, vain, slowest = stale+len(r.stale), vain+len(r.vain), max(slowest, r.slowest)
				for _, client := range slices.Concat(r.stale, r.vain) {
					broken = errors.Join(broken, fmt.Errorf("%s: client %d was told in vain, or does not "+
						"hold change %d %v after everything was healed:\n%s", t.name, client, r.mark, current,
						a.soFar().since(r.began).of(client)))
				}
			}
			fmt.Printf("| %s | %d | %d, %d | %s |\n", t.name, s.times, stale, vain,
				rig.Milliseconds(slowest))
		}
	})
	return errors.Join(err, broken)
}

// round is what a fault did to the listeners.
type round struct {
	began time.Duration
	mark  int
	// stale are the clients that hold an old list afterwards, vain those that were told without a need.
	stale, vain []int
	// slowest is when the last of the others had listed the change, after everything was healed.
	slowest time.Duration
}

func (t trouble) round(w *world, a *audience, s *settings) round {
	r, replica, bound := round{began: time.Since(a.began)}, rand.IntN(replicas), current //nolint:gosec // need not be secret
	if s.busy {
		bound = busyCurrent
	}
	note := func(name string, mark int) {
		a.note(op{Name: name, At: replica + 1, Mark: mark}, time.Now(), nil)
	}
	note(t.name, 0)
	t.begin(w, replica)
	before := time.Duration(rand.Int64N(int64(t.lasts))) //nolint:gosec // as above
	w.st.Pause(before)
	r.mark = w.change()
	note("change", r.mark)
	w.st.Pause(t.lasts - before)
	t.end(w, replica)
	note("healed", 0)
	healed := time.Since(a.began)
	w.st.Pause(current)
	if s.busy {
		_ = a.await(r.mark, bound-current) // below
	}
	h := a.soFar()
	r.stale = h.stale(r.mark, healed+bound)
	if t.name == "none" {
		r.vain = h.unneeded(r.began)
	}
	r.slowest = max(0, h.caughtUp(r.mark)-healed)
	if err := a.await(r.mark, busyCurrent); err != nil { // the next round would not begin well
		h := a.soFar()
		for _, client := range h.stale(r.mark, time.Since(a.began)) {
			err = fmt.Errorf("%w\n%s", err, h.since(r.began).of(client))
		}
		rig.Check(fmt.Errorf("%s: %w", t.name, err))
	}
	return r
}
