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
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/gateway/gatewaytest/history"
)

const (
	// listeners are clients whose history is recorded, and getters those that get prompts.
	listeners, getters = 30, 4
	// pipes are clients over stdio, which listen too, and noticed is how soon their gateways load a file
	// that has changed.
	pipes, noticed = 2, 3 * time.Second
	// heldRate and heldBurst are those of the prompt with a limit.
	heldRate, heldBurst = 20, 5
	// getPause is the longest pause of a getter.
	getPause = 60 * time.Millisecond
	// soon is how long clients may be without a change that all replicas have within prompt, later how
	// long without one that a replica has later.
	prompt, soon, later = 10 * time.Second, 12 * time.Second, 92 * time.Second
	// slack is how much longer that may be on a busy machine.
	slack = 30 * time.Second
	// reached is how long after a fault its effects last: a gateway connects again to a server within ten
	// seconds.
	reached = 11 * time.Second
	// calm is the time between two rounds, and how long most faults last.
	calm = 5 * time.Second
	// probeInterval is how often each replica is listed, to know what it has.
	probeInterval = 500 * time.Millisecond
	// blurred is how long a replica may count alone, in all, on a busy machine whose store is late now
	// and then.
	blurred = 300 * time.Millisecond
	// answerTimeout is how long a listener waits for a replica that may be stopped.
	answerTimeout = 2 * time.Second
	// epoch is the least length of a history, of which the last 92 seconds are checked in part.
	epoch = 5 * time.Minute
)

// fleet is replicas, with what their histories are made of.
type fleet struct {
	w       *world
	a       *history.Audience
	rng     *rand.Rand
	sources []*history.Source
	// ways are those to the sources, of each replica and then of gateways over stdio.
	ways  [][]*rig.Proxy
	gates []int // in force at each replica
	stdio stdio
	cost  struct{ operations, changes, notices, faults, gets, piped int }
}

// runHistories draws faults, one and two at a time, while clients listen, lists and rules change and
// prompts are got, and checks what the clients recorded. Each history has a seed of its own, so that
// the faults of any happen again.
func (s *settings) runHistories(ctx context.Context) (broken error) {
	fmt.Printf("seed %d\n", s.seed)
	err := rig.Run(ctx, func(st *rig.Stage) {
		f := s.newFleet(st)
		seed := s.seed
		for began := time.Now(); time.Since(began) < s.length; seed++ {
			f.rng = rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // to be repeated
			h := f.epoch(s)
			if err := s.check(h); err != nil {
				whole := filepath.Join(os.TempDir(), fmt.Sprintf("history-%d.txt", seed))
				rig.Check(os.WriteFile(whole, []byte(h.String()), 0o600))
				fmt.Fprintf(os.Stderr, "seed %d, all of it is in %s: %v\n", seed, whole, err)
				broken = errors.Join(broken, err)
			}
		}
		fmt.Printf("%d operations, of which %d gets, %d notices and %d lists over stdio; %d changes, %d faults\n",
			f.cost.operations, f.cost.gets, f.cost.notices, f.cost.piped, f.cost.changes, f.cost.faults)
	})
	return errors.Join(err, broken)
}

// check returns the violations in a history, the first of each letter.
func (s *settings) check(h history.History) (broken error) {
	m := history.Model{
		Replicas: s.replicas, Prompt: prompt, Soon: soon, Later: later, Aftermath: reached,
		Limits: []history.Limit{{Prompt: history.Limited, Rate: heldRate, Burst: heldBurst}},
	}
	if s.busy { // then the store is late now and then, and a replica counts alone for a moment
		alone := heldBurst + heldRate*blurred.Seconds()
		m.Soon, m.Later, m.Limits[0].Slow = soon+slack, later+slack, true
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
	w := &world{st: st, program: s.build, store: newStore(st)}
	f := &fleet{
		w: w, gates: make([]int, s.replicas),
		sources: []*history.Source{history.NewSource("plain", true), history.NewSource("spare", false)},
	}
	for _, source := range f.sources {
		var ways []*rig.Proxy
		for address := strings.TrimPrefix(st.Serve(source), "http://"); len(ways) <= s.replicas; {
			ways = append(ways, st.Proxy(address))
		}
		f.ways = append(f.ways, ways)
		source.Change(history.NewRecorder())
	}
	w.client.Transport = &http.Transport{MaxIdleConnsPerHost: listeners, ResponseHeaderTimeout: answerTimeout}
	for i := range s.replicas {
		p := st.Proxy(w.store.address)
		// The texts are the same, as where replicas share what they load.
		g := st.Gateway(f.text(0), f.command(i, p.Address, rig.FreeAddress(st.Context()), rig.FreeAddress(st.Context()))...)
		w.proxies, w.gateways = append(w.proxies, p), append(w.gateways, g)
	}
	rig.Check(w.awaitStore())
	f.stdio.path = filepath.Join(st.Dir(), "gateway.hcl")
	f.stdio.command = append(f.command(s.replicas, w.store.address, rig.AnyAddress, rig.AnyAddress), "stdio", "--config", f.stdio.path)
	f.stdio.load(f.text(0), 0)
	return f
}

// command returns the program with what its configuration asks for.
func (f *fleet) command(way int, store, listen, admin string) []string {
	return []string{
		"/usr/bin/env", "STORE=redis://" + store, "LISTEN=" + listen, "ADMIN=" + admin,
		"PLAIN=http://" + f.ways[0][way].Address + "/mcp", "SPARE=http://" + f.ways[1][way].Address + "/mcp",
		"PROMPTWEIR_TOKEN=" + history.Principals()[0], f.w.program,
	}
}

// treat treats what replicas send to a source, and receive from it.
func (f *fleet) treat(source int, to, from rig.Network) {
	for _, way := range f.ways[source] {
		way.Treat(to, from)
	}
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
	return head + history.Blocks(gate, heldRate, heldBurst, `env("PLAIN")`, `env("SPARE")`)
}

// start starts a replica that has ended.
func (f *fleet) start(i int) {
	sent := time.Now()
	f.a.Note(history.Op{Name: history.Started, At: i + 1}, sent, nil)
	f.w.gateways[i].Start()
	f.a.Note(history.RulesAt(i+1, f.gates[i]), sent, nil)
}

// reload gives the replicas other rules, one after the other.
func (f *fleet) reload() {
	gate, sent := (f.gates[0]+1)%history.Gates, time.Now()
	f.stdio.load(f.text(gate), gate)
	for i, g := range f.w.gateways {
		began := time.Now()
		g.Reload(f.text(gate))
		f.gates[i] = gate
		f.a.Note(history.RulesAt(i+1, gate), began, nil)
		f.w.st.Pause(time.Duration(f.rng.IntN(1500)) * time.Millisecond)
	}
	f.w.st.Pause(time.Until(sent.Add(noticed)))
	for i := range f.a.Pipes {
		f.a.Note(history.RulesAt(f.a.Pipes[i].At, gate), sent, nil)
	}
	f.a.Note(history.RulesChange(gate), sent, nil)
}

// epoch returns the history of some rounds.
func (f *fleet) epoch(s *settings) history.History {
	w, began := f.w, time.Now()
	f.a = &history.Audience{
		Client: w.client, Endpoints: w.endpoints(), Principals: history.Principals(), SSE: true, Read: history.ReadList,
	}
	for i := range pipes {
		at := s.replicas + i + 1
		f.a.Pipes = append(f.a.Pipes, history.Pipe{At: at, Open: f.open(f.a, at)})
	}
	var others []func(context.Context)
	pause := func() time.Duration { return rand.N(getPause) } //nolint:gosec // need not be secret
	for i := range getters {
		others = append(others, f.a.Getter(1000+i, history.Principals()[i%2], pause, rand.IntN))
	}
	for i := range s.replicas {
		others = append(others, f.a.Prober(2000+i, history.Principals()[0], i+1, probeInterval))
	}
	f.a.Start(w.st.Context(), listeners, others...)
	for i, gate := range f.gates {
		f.a.Note(history.RulesAt(i+1, gate), time.Now(), nil)
	}
	for _, source := range f.sources {
		source.Repeat(f.a.Recorder)
	}
	f.a.Note(history.RulesChange(f.gates[0]), time.Now(), nil)
	w.st.Pause(2 * calm) // the first is the clients' begin
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
		case history.List:
			if h[i].At > s.replicas && h[i].Error == "" {
				f.cost.piped++
			}
		}
	}
	return h
}

// round has one fault happen, or two, with changes meanwhile, and then waits for a while.
func (f *fleet) round(s *settings) {
	all := slices.DeleteFunc(troubles(), func(t trouble) bool {
		return !s.only.MatchString(t.name) || s.short && t.lasts > calm || strings.HasPrefix(t.name, "clock") && !canSetClock()
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
		if n > 1 { // the other one, too, before all replicas have the first change
			f.w.st.Pause(time.Duration(f.rng.IntN(60)) * time.Millisecond)
			f.sources[1-n%2].Change(f.a.Recorder)
		}
	}
	f.w.st.Pause(lasts - before)
	for _, end := range ends {
		end()
	}
	f.w.st.Pause(time.Duration(f.rng.IntN(1000)) * time.Millisecond)
	if len(drawn) > 1 || drawn[0].name != "none" {
		f.a.Note(history.Op{Name: history.Healed}, time.Now(), nil)
	}
	f.w.st.Pause(calm)
}
