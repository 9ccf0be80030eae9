// Command replicas says what several replicas of a gateway cost servers, the store and clients, when a list changes and while nothing
// does.
//
// It runs 1, 3 and 10 gateways with a real store, a few servers and clients, counts messages, and computes the same by a model of the
// same fleet. Where they differ by more than a tenth, the exit code is 1. With -simulate, it computes only, for 100 replicas,
// 1 000 servers and 100 000 clients, which takes seconds and always gives the same. With -many, it runs three gateways with as many servers,
// kills the one that watches them, and exits with 1 unless the others do within 10 seconds and answer limited gets meanwhile.
//
//	clients ──▶ gateways ──▶ servers, which count what they are asked
//	                └──▶ store, which says what it is asked (MONITOR)
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	bin := flag.String("bin", "bin", "`directory` of the program promptweir")
	counts := flag.String("replicas", "1,3,10", "how many `replicas` are run")
	changes := flag.Int("changes", 10, "how many changes are measured")
	alone := flag.Bool("alone", false, "have each replica watch the servers for itself: shared_watch = false")
	simulated := flag.Bool("simulate", false, "compute a fleet of 100 replicas instead, without running anything")
	many := flag.Int("many", 0, "run 3 replicas with so many `servers` instead, kill the one that watches, and count until others do")
	seed := flag.Uint64("seed", 1, "that of the model; another one gives figures that differ by little")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *simulated {
		printSimulation(*seed)
		return
	}
	if *many > 0 {
		if err := runMany(ctx, *bin, 3, *many); err != nil {
			fmt.Fprintln(os.Stderr, "replicas:", err)
			os.Exit(1) //nolint:gocritic // as below
		}
		return
	}
	if err := run(ctx, *bin, *counts, *changes, *alone, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "replicas:", err)
		os.Exit(1) //nolint:gocritic // the deferred call releases only what ends with the process
	}
}

// run measures fleets and compares each with the model.
func run(ctx context.Context, bin, counts string, changes int, alone bool, seed uint64) error {
	fmt.Printf("%d servers of %d prompts, %d clients that see all of them, %d changes. In brackets: by the model.\n\n", servers, prompts, clients, changes)
	fmt.Println("| replicas | watch | streams | lists a change | commands a change | of them published | told a change | client lists a change | " +
		"told after, p50; slowest | commands a second without a change |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	var differing []string
	for count := range strings.SplitSeq(counts, ",") {
		replicas, err := strconv.Atoi(count)
		if err != nil {
			return err
		}
		m, err := measure(ctx, bin, replicas, changes, alone)
		if err != nil {
			return fmt.Errorf("%d replicas: %w", replicas, err)
		}
		f := m.fleet()
		model, idle := simulate(f, seed, spaced(changes)), f.standing()
		fmt.Printf("| %d | %s | %d (%.0f) | %s | %s | %s | %s | %s | %v; %v (%v; %v) | %.1f (%.1f) |\n", replicas, watchOf(f), m.streams, idle.streams,
			perChange(m.lists, model.lists, changes), perChange(m.commands, model.commands, changes),
			perChange(m.published, model.published, changes), perChange(m.told, model.told, changes),
			perChange(m.clientLists, model.clientLists, changes), round(at(m.latencies, 0.5)), round(at(m.latencies, 1)),
			round(at(model.latencies, 0.5)), round(at(model.latencies, 1)), m.idleCommands, idle.commands)
		for what, pair := range map[string][2]int{
			"lists": {m.lists, model.lists}, "clients told": {m.told, model.told}, "lists of clients": {m.clientLists, model.clientLists},
			"streams": {m.streams, int(idle.streams)},
		} {
			if apart := pair[0] - pair[1]; max(apart, -apart)*10 > max(pair[0], pair[1]) {
				differing = append(differing, fmt.Sprintf("%d replicas: %s: measured %d, computed %d", replicas, what, pair[0], pair[1]))
			}
		}
	}
	if len(differing) > 0 {
		return fmt.Errorf("the model is wrong, or the machine was too busy:\n  %s", strings.Join(differing, "\n  "))
	}
	return nil
}

// watchOf says who watches the servers.
func watchOf(f fleet) string {
	if f.shared {
		return "one for all"
	}
	return "each"
}

// spacing is the time between two changes that are measured: long enough that none shares anything with the next.
const spacing = 1500 * time.Millisecond

// spaced returns changes of one server after another.
func spaced(n int) (changes []change) {
	for i := range n {
		changes = append(changes, change{time.Duration(i) * spacing, i % servers})
	}
	return changes
}

func perChange(measured, computed, changes int) string {
	return fmt.Sprintf("%.1f (%.1f)", float64(measured)/float64(changes), float64(computed)/float64(changes))
}

// at returns the value in sorted ones below which a part of them is.
func at(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// printSimulation prints what changes cause in a large fleet.
func printSimulation(seed uint64) {
	f := fleet{replicas: 100, servers: 1000, listeners: 100_000, pages: 1, answer: 5 * time.Millisecond, late: 100, listSize: 64 << 10, tells: true}
	fmt.Printf("%d replicas, %d servers, %d clients, by the model with seed %d.\n\n", f.replicas, f.servers, f.listeners, seed)
	fmt.Println("| what changes | who sees it | watch | requests to servers | commands | sent on by the store | clients told | pages to clients | " +
		"told after, p50; p99; slowest | most in a second: requests, commands, clients told |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, scenario := range []struct {
		name    string
		changes []change
		teams   int
	}{
		{"one list", []change{{0, 0}}, 100},
		{"one list", []change{{0, 0}}, 1},
		{"all lists within a minute", over(f.servers, time.Minute), 100},
		{"20 lists within 10 s", over(20, 10*time.Second), 1},
		{"one list, 20 times a second for 10 s", same(200, 10*time.Second), 100},
	} {
		for _, shared := range []bool{false, true} {
			f.teams, f.shared = scenario.teams, shared
			// A client sees ten prompts of each server of its team, on pages of 1 000.
			f.clientPages = max(1, f.servers/f.teams*10/1000)
			got := simulate(f, seed, scenario.changes)
			who := fmt.Sprintf("%d clients", f.listeners/f.teams)
			fmt.Printf("| %s | %s | %s | %d | %d | %d | %d | %d | %v; %v; %v | %d, %d, %d |\n", scenario.name, who, watchOf(f), got.lists,
				got.commands, got.delivered, got.told, got.clientLists, round(at(got.latencies, 0.5)), round(at(got.latencies, 0.99)),
				round(at(got.latencies, 1)), got.peakLists, got.peakCommands, got.peakTold)
		}
	}
	for _, shared := range []bool{false, true} {
		f.shared = shared
		s := f.standing()
		fmt.Printf("\nwithout a change, watch %s: %.0f streams, %.0f signs of life a second, %.0f commands a second\n", watchOf(f), s.streams, s.signs, s.commands)
	}
}

// over returns a change of each of the first n servers, evenly within a time.
func over(n int, within time.Duration) (changes []change) {
	for i := range n {
		changes = append(changes, change{within * time.Duration(i) / time.Duration(n), i})
	}
	return changes
}

// same returns changes of one server, evenly within a time.
func same(n int, within time.Duration) (changes []change) {
	for i := range n {
		changes = append(changes, change{within * time.Duration(i) / time.Duration(n), 0})
	}
	return changes
}
