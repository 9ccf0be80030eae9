package main

import (
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/promptweir/promptweir/gateway/gatewaytest/history"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
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
		return trouble{history.ReplicaFault + "stopped for " + lasts.String(), lasts, func(f *fleet, i int) func() {
			f.w.gateways[i].Signal(syscall.SIGSTOP)
			return func() { f.w.gateways[i].Signal(syscall.SIGCONT) }
		}}
	}
	network := func(name string, to, from rig.Network) trouble {
		return trouble{"network " + name, calm, func(f *fleet, i int) func() {
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
	server := func(name string, lasts time.Duration, begin func(f *fleet, s *history.Source, i int) func()) trouble {
		return trouble{"server " + name, lasts, func(f *fleet, i int) func() { return begin(f, f.sources[i%2], i%2) }}
	}
	cut, late, later := rig.Network{Lost: true}, rig.Network{Delay: 300 * time.Millisecond}, rig.Network{Delay: 1500 * time.Millisecond}
	nothing := func() {}
	return []trouble{
		{"none", time.Second, func(*fleet, int) func() { return nothing }},
		{history.ReplicaFault + "killed", 3 * time.Second, func(f *fleet, i int) func() {
			f.w.gateways[i].Kill()
			return func() { f.start(i) }
		}},
		stopped(2 * time.Second), stopped(10 * time.Second), stopped(40 * time.Second),
		{"store killed", calm, func(f *fleet, _ int) func() { f.w.store.process.Kill(); return f.w.store.start }},
		{"store hung", calm, func(f *fleet, _ int) func() { f.w.store.hang(); return f.w.store.resume }},
		{"store emptied", 100 * time.Millisecond, func(f *fleet, _ int) func() {
			rig.Check(f.w.store.command("FLUSHALL"))
			return nothing
		}},
		{"store full", calm, func(f *fleet, _ int) func() {
			rig.Check(f.w.store.command("CONFIG SET maxmemory 1"))
			return func() { rig.Check(f.w.store.command("CONFIG SET maxmemory 0")) }
		}},
		{"store replaced by an older copy", calm, func(f *fleet, _ int) func() {
			rig.Check(f.w.store.command("SAVE"))
			return func() { f.w.store.process.Kill(); f.w.store.restore() }
		}},
		network("cut", cut, cut), network("late", late, late),
		network("loses what is sent", cut, rig.Network{}), network("loses what is received", rig.Network{}, cut),
		clock("+1h"), clock("-2h"), clock("+24h"),
		server("flaps", 2*time.Second, func(f *fleet, s *history.Source, _ int) func() {
			return repeat(50*time.Millisecond, func() { s.Change(f.a.Recorder) })
		}),
		server("changes while it is listed", 2*time.Second, func(f *fleet, s *history.Source, i int) func() {
			f.treat(i, rig.Network{}, late)
			stop := repeat(200*time.Millisecond, func() { s.Change(f.a.Recorder) })
			return func() { stop(); f.treat(i, rig.Network{}, rig.Network{}) }
		}),
		server("answers an older list", time.Second, func(f *fleet, s *history.Source, _ int) func() {
			s.GoBack(f.a.Recorder)
			return func() { s.Change(f.a.Recorder) }
		}),
		{"way to a server is late for one replica", calm, func(f *fleet, i int) func() {
			way := f.ways[f.rng.IntN(len(f.ways))][i]
			way.Treat(rig.Network{}, later)
			return func() { way.Treat(rig.Network{}, rig.Network{}) }
		}},
		{"way to a server is cut", 2 * time.Second, func(f *fleet, i int) func() {
			f.treat(i%2, cut, cut)
			return func() { f.treat(i%2, rig.Network{}, rig.Network{}) }
		}},
	}
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

// repeat calls do again and again, with a pause after each call. Calling stop ends this and waits for
// the last call.
func repeat(pause time.Duration, do func()) (stop func()) {
	stopping, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			do()
			select {
			case <-stopping:
				return
			case <-time.After(pause):
			}
		}
	}()
	return func() { close(stopping); <-done }
}
