package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/gateway/gatewaytest/history"
	"github.com/promptweir/promptweir/gateway/gatewaytest/light"
)

const (
	// listeners are clients whose history is recorded, and getters those that get prompts.
	listeners, getters = 30, 4
	// heldRate and heldBurst are those of the prompt with a limit.
	heldRate, heldBurst = 20, 5
	// getPause is the longest pause of a getter.
	getPause = 60 * time.Millisecond
	// current is how long after everything is healed nobody may hold an old list.
	current = 5 * time.Second
	// busyCurrent is the same where durations say nothing.
	busyCurrent = 40 * time.Second
	// answerTimeout is how long a listener waits for a replica that may be stopped.
	answerTimeout = 2 * time.Second
	// epoch is how long a history is at least.
	epoch = 2 * time.Minute
)

// trouble is a fault of the replicas, their store or their servers. Begin returns what ends it.
type trouble struct {
	name  string
	lasts time.Duration
	begin func(f *fleet, which int) (end func())
}

// troubles are all faults. No two of one kind, the first word of the name, happen at a time.
func troubles() []trouble {
	stopped := func(lasts time.Duration) trouble {
		return trouble{"replica stopped for " + lasts.String(), lasts, func(f *fleet, i int) func() {
			f.w.gateways[i].Signal(syscall.SIGSTOP)
			return func() { f.w.gateways[i].Signal(syscall.SIGCONT) }
		}}
	}
	network := func(name string, to, from rig.Network) trouble {
		return trouble{"network " + name, current, func(f *fleet, i int) func() {
			f.w.proxies[i].Treat(to, from)
			return func() { f.w.proxies[i].Treat(rig.Network{}, rig.Network{}) }
		}}
	}
	clock := func(by string) trouble {
		return trouble{"clock of the store by " + by, time.Second, func(f *fleet, _ int) func() {
			f.w.store.setClock(by)
			return func() {}
		}}
	}
	server := func(name string, lasts time.Duration, begin func(f *fleet, s *light.Source, i int) func()) trouble {
		return trouble{"server " + name, lasts, func(f *fleet, i int) func() { return begin(f, f.sources[i%2], i%2) }}
	}
	cut, late := rig.Network{Lost: true}, rig.Network{Delay: 300 * time.Millisecond}
	nothing := func() {}
	return []trouble{
		{"none", time.Second, func(*fleet, int) func() { return nothing }},
		{"replica killed", 3 * time.Second, func(f *fleet, i int) func() {
			f.w.gateways[i].Kill()
			return func() { f.start(i) }
		}},
		stopped(2 * time.Second), stopped(10 * time.Second), stopped(40 * time.Second),
		{"store killed", current, func(f *fleet, _ int) func() { f.w.store.process.Kill(); return f.w.store.start }},
		{"store hung", current, func(f *fleet, _ int) func() { f.w.store.hang(); return f.w.store.resume }},
		{"store emptied", 100 * time.Millisecond, func(f *fleet, _ int) func() {
			rig.Check(f.w.store.command("FLUSHALL"))
			return nothing
		}},
		{"store full", current, func(f *fleet, _ int) func() {
			rig.Check(f.w.store.command("CONFIG SET maxmemory 1"))
			return func() { rig.Check(f.w.store.command("CONFIG SET maxmemory 0")) }
		}},
		{"store replaced by an older copy", current, func(f *fleet, _ int) func() {
			rig.Check(f.w.store.command("SAVE"))
			return func() { f.w.store.process.Kill(); f.w.store.restore() }
		}},
		network("cut", cut, cut), network("late", late, late),
		network("loses what is sent", cut, rig.Network{}), network("loses what is received", rig.Network{}, cut),
		clock("+1h"), clock("-2h"), clock("+24h"),
		server("flaps", 2*time.Second, func(f *fleet, s *light.Source, _ int) func() {
			return repeat(50*time.Millisecond, func() { s.Change(f.a.Recorder) })
		}),
		server("changes while it is listed", 2*time.Second, func(f *fleet, s *light.Source, i int) func() {
			f.ways[i].Treat(rig.Network{}, late)
			stop := repeat(200*time.Millisecond, func() { s.Change(f.a.Recorder) })
			return func() { stop(); f.ways[i].Treat(rig.Network{}, rig.Network{}) }
		}),
		server("answers an older list", time.Second, func(f *fleet, s *light.Source, _ int) func() {
			s.GoBack(f.a.Recorder)
			return func() { s.Change(f.a.Recorder) }
		}),
		server("is cut", 2*time.Second, func(f *fleet, _ *light.Source, i int) func() {
			f.ways[i].Treat(cut, cut)
			return func() { f.ways[i].Treat(rig.Network{}, rig.Network{}) }
		}),
	}
}

// fleet is replicas, with what their histories are made of.
type fleet struct {
	w       *world
	a       *light.Audience
	rng     *rand.Rand
	sources []*light.Source
	ways    []*rig.Proxy // to the sources
	gates   []int        // in force at each replica
	cost    struct{ operations, changes, notices, faults, gets int }
}

// runHistories draws faults from a seed, one and two at a time, while clients listen, lists and rules
// change and prompts are got, and checks what the clients recorded.
func (s *settings) runHistories(ctx context.Context) (broken error) {
	fmt.Printf("seed %d\n", s.seed)
	err := rig.Run(ctx, func(st *rig.Stage) {
		f := s.newFleet(st)
		for began := time.Now(); !s.isOver(broken) && time.Since(began) < s.length; {
			broken = s.check(f.epoch(s))
		}
		fmt.Printf("%d operations, of which %d gets and %d notices; %d changes, %d faults\n",
			f.cost.operations, f.cost.gets, f.cost.notices, f.cost.changes, f.cost.faults)
	})
	switch {
	case s.want != "" && s.isOver(broken):
		fmt.Printf("found:\n%v\n", broken)
		return err
	case s.want != "":
		return errors.Join(err, broken, fmt.Errorf("no violation of %s", s.want))
	}
	return errors.Join(err, broken)
}

// isOver reports whether what was found is enough.
func (s *settings) isOver(broken error) bool {
	return broken != nil && strings.Contains("\n"+broken.Error(), "\n"+s.want)
}

// check returns the violations in a history, the first of each letter.
func (s *settings) check(h history.History) (broken error) {
	m := history.Model{
		Replicas: s.replicas, Again: 3 * time.Second, Aftermath: 40 * time.Second,
		Limits: []history.Limit{{Prompt: light.Limited, Rate: heldRate, Burst: heldBurst}},
	}
	if s.busy { // then the store is late now and then, and a replica counts alone for a moment
		alone := heldBurst + heldRate*blurred.Seconds()
		m.Again, m.Limits[0].Slow = busyCurrent, true
		m.Limits[0].Burst += float64(s.replicas-1) * alone
	}
	seen := map[string]bool{}
	for _, v := range m.Check(h) {
		if !seen[v.Letter] {
			broken = errors.Join(broken, errors.New(v.String()))
		}
		seen[v.Letter] = true
	}
	return broken
}

func (s *settings) newFleet(st *rig.Stage) *fleet {
	w := newWorld(st, s, 0)
	w.store = newStore(st)
	f := &fleet{
		w: w, rng: rand.New(rand.NewPCG(s.seed, 0)), gates: make([]int, s.replicas), //nolint:gosec // to be repeated
		sources: []*light.Source{light.NewSource("plain", true), light.NewSource("spare", false)},
	}
	for _, source := range f.sources {
		f.ways = append(f.ways, st.Proxy(strings.TrimPrefix(st.Serve(source), "http://")))
		source.Change(history.NewRecorder())
	}
	w.client.Transport = &http.Transport{MaxIdleConnsPerHost: listeners, ResponseHeaderTimeout: answerTimeout}
	for range s.replicas {
		p := st.Proxy(w.store.address)
		// The texts are the same, as where replicas share what they load.
		g := st.Gateway(f.text(0), nil, "/usr/bin/env", "STORE=redis://"+p.Address,
			"LISTEN="+rig.FreeAddress(st.Context()), "ADMIN="+rig.FreeAddress(st.Context()), w.program)
		w.proxies, w.gateways = append(w.proxies, p), append(w.gateways, g)
	}
	rig.Check(w.awaitStore())
	return f
}

func (f *fleet) text(gate int) string {
	const head = `
gateway {
  listen      = env("LISTEN")
  cursor_keys = ["QUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUJDQUI="]
  drain_delay = "1s"
}
admin { listen = env("ADMIN") }
cluster { store = env("STORE") }
`
	return head + light.Blocks(gate, heldRate, heldBurst, "http://"+f.ways[0].Address+"/mcp", "http://"+f.ways[1].Address+"/mcp")
}

// start starts a replica that has ended.
func (f *fleet) start(i int) {
	sent := time.Now()
	f.a.Note(history.Op{Name: history.Started, At: i + 1}, sent, nil)
	f.w.gateways[i].Start()
	f.a.Note(light.Rules(i+1, f.gates[i]), sent, nil)
}

// reload gives the replicas other rules, one after the other.
func (f *fleet) reload() {
	gate, sent := (f.gates[0]+1)%light.Gates, time.Now()
	for i, g := range f.w.gateways {
		began := time.Now()
		g.Reload(f.text(gate))
		f.gates[i] = gate
		f.a.Note(light.Rules(i+1, gate), began, nil)
		f.w.st.Pause(time.Duration(f.rng.IntN(1500)) * time.Millisecond)
	}
	f.a.Note(light.RulesChange(gate), sent, nil)
}

// epoch returns the history of some rounds.
func (f *fleet) epoch(s *settings) history.History {
	w, began := f.w, time.Now()
	f.a = &light.Audience{
		Client: w.client, Endpoints: w.endpoints(), Principals: light.Principals(), SSE: true, Read: light.Read,
	}
	var others []func(context.Context)
	pause := func() time.Duration { return rand.N(getPause) } //nolint:gosec // need not be secret
	for i := range getters {
		others = append(others, f.a.Getter(1000+i, light.Principals()[i%2], pause, rand.IntN))
	}
	f.a.Start(w.st.Context(), listeners, others...)
	for i, gate := range f.gates {
		f.a.Note(light.Rules(i+1, gate), time.Now(), nil)
	}
	for _, source := range f.sources {
		source.Repeat(f.a.Recorder)
	}
	f.a.Note(light.RulesChange(f.gates[0]), time.Now(), nil)
	w.st.Pause(2 * current) // the first is the clients' begin
	for time.Since(began) < min(epoch, s.length) {
		f.round(s)
	}
	h := f.a.Stop()
	f.cost.operations += len(h)
	for i := range h {
		switch h[i].Name {
		case history.Change:
			f.cost.changes++
		case history.Told:
			f.cost.notices++
		case history.Get:
			f.cost.gets++
		}
	}
	return h
}

// round has one fault happen, or two, with changes meanwhile, and then waits until all is quiet.
func (f *fleet) round(s *settings) {
	all := slices.DeleteFunc(troubles(), func(t trouble) bool {
		return !s.only.MatchString(t.name) || s.short && t.lasts > current || strings.HasPrefix(t.name, "clock") && !canSetClock()
	})
	f.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	kind := func(t trouble) string { name, _, _ := strings.Cut(t.name, " "); return name }
	drawn := all[:1]
	if len(all) > 1 && kind(all[1]) != kind(all[0]) && f.rng.IntN(2) == 0 {
		drawn = all[:2]
	}
	var ends []func()
	which, lasts, canReload := f.rng.IntN(s.replicas), time.Duration(0), true
	for _, t := range drawn {
		if f.cost.faults++; t.name != "none" {
			f.a.Note(history.Op{Name: history.Fault, Of: t.name, At: which + 1}, time.Now(), nil)
		}
		ends = append(ends, t.begin(f, which))
		lasts, canReload = max(lasts, t.lasts), canReload && kind(t) != "replica"
	}
	flaps := slices.ContainsFunc(drawn, func(t trouble) bool { return kind(t) == "server" })
	before := time.Duration(f.rng.Int64N(int64(lasts)))
	f.w.st.Pause(before)
	switch n := f.rng.IntN(4); {
	case n == 0 && canReload:
		f.reload()
	case !flaps:
		f.sources[n%2].Change(f.a.Recorder)
	}
	f.w.st.Pause(lasts - before)
	for _, end := range ends {
		end()
	}
	f.w.st.Pause(time.Duration(f.rng.IntN(1000)) * time.Millisecond)
	if len(drawn) > 1 || drawn[0].name != "none" {
		f.a.Note(history.Op{Name: history.Healed}, time.Now(), nil)
	}
	f.w.st.Pause(current)
	if s.busy {
		_ = rig.Eventually(busyCurrent-current, func() error { // the model says what is missing
			return errors.Join(f.a.Missing("plain", f.sources[0].Mark()), f.a.Missing("spare", f.sources[1].Mark()))
		})
	}
	f.a.Note(history.Op{Name: history.Quiet}, time.Now(), nil)
}

// libfaketime sets the clock of a program that is started with it, by a file.
const libfaketime = "/usr/lib/*/faketime/libfaketime.so.1"

func canSetClock() bool {
	found, _ := filepath.Glob(libfaketime) // the pattern is one
	return len(found) > 0
}

// clocked returns the words in front of a command, by which a file sets its clock.
func clocked(file string) []string {
	found, _ := filepath.Glob(libfaketime) // as above
	if len(found) == 0 {
		return nil
	}
	rig.Check(os.WriteFile(file, []byte("+0"), 0o600))
	return []string{
		// With the libc's malloc, since jemalloc asks for the time before libfaketime is ready.
		"/usr/bin/env", "LD_PRELOAD=" + found[0] + " libc.so.6", "FAKETIME_TIMESTAMP_FILE=" + file,
		"FAKETIME_CACHE_DURATION=1", "DONT_FAKE_MONOTONIC=1",
	}
}
