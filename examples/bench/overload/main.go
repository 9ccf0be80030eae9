// Command overload offers a gateway more than it can answer, and prints what becomes of it: the results per second (goodput), their
// latency, memory, goroutines, and how soon operators are answered meanwhile.
//
//	clients ──▶ gateway, on one core ──▶ server without a bound       the gateway's capacity
//	clients ──▶ gateway, on one core ──▶ server with a few workers    a server's capacity
//
// The load is an open loop: requests come at a rate, whether or not earlier ones were answered. The capacity is the highest rate at
// which 99 of 100 results take less than 100 ms. It is found first, and then some multiples of it are offered. With -against the
// same is done with an older build.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// settings are the flags.
type settings struct {
	bin, against, core string
	length             time.Duration
	multiples          []float64
	only, operate      string
}

func main() {
	s := settings{multiples: []float64{0.5, 0.9, 1.5, 3}}
	flag.StringVar(&s.bin, "bin", "bin", "`directory` of the programs promptweir and reference")
	flag.StringVar(&s.against, "against", "", "do the same with this older `build` of the gateway")
	flag.StringVar(&s.core, "core", "0", "the `core` on which the gateway runs; needs taskset. Start overload itself on others")
	flag.DurationVar(&s.length, "length", 8*time.Second, "how long each load lasts")
	flag.StringVar(&s.only, "only", "", "whose `capacity`: gateway or server")
	flag.StringVar(&s.operate, "operate", "", "be the operator who looks at the admin listener at this `URL`; for overload itself")
	flag.Func("multiples", "the `multiples` of the capacity to offer, with commas between them", func(list string) (err error) {
		s.multiples, err = numbers(list)
		return err
	})
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	work := run
	if s.operate != "" {
		work = func(ctx context.Context, s settings) error { return operate(ctx, s.operate) }
	}
	if err := work(ctx, s); err != nil {
		slog.Error("overload", slog.Any("error", err))
		os.Exit(1) //nolint:gocritic // the deferred call releases only what ends with the process
	}
}

func numbers(list string) (all []float64, err error) {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// bound is what bounds the requests per second.
type bound struct {
	name string
	// server are the flags of the server.
	server []string
	// first is the rate at which the search for the capacity begins.
	first float64
}

func bounds() []bound {
	return []bound{
		{"gateway", nil, 2000},
		{"server", []string{"-delay", "20ms", "-workers", "10"}, 200}, // 500 gets a second
	}
}

func run(ctx context.Context, s settings) error {
	builds := []string{filepath.Join(s.bin, "promptweir")}
	if s.against != "" {
		builds = []string{s.against, builds[0]}
	}
	for _, b := range bounds() {
		if s.only != "" && s.only != b.name {
			continue
		}
		fmt.Println(heading(b))
		for _, build := range builds {
			if err := measure(ctx, s, b, build); err != nil {
				return fmt.Errorf("%s, %s: %w", b.name, build, err)
			}
		}
		fmt.Println()
	}
	return nil
}

// measure finds the capacity of a build and prints a row for each multiple of it.
func measure(ctx context.Context, s settings, b bound, build string) error {
	st, err := newStage(ctx, s, b, build)
	if err != nil {
		return err
	}
	defer st.close()
	capacity, err := st.capacity(ctx, b.first)
	if err != nil {
		return err
	}
	fmt.Printf("| %s | capacity | %.0f | | | | | | | | | |\n", filepath.Base(build), capacity)
	for _, multiple := range s.multiples {
		sample, err := st.offer(ctx, multiple*capacity, s.length)
		if err != nil {
			return fmt.Errorf("at %.1f of the capacity: %w", multiple, err)
		}
		fmt.Println(row(filepath.Base(build), multiple, multiple*capacity, sample))
	}
	return nil
}

func heading(b bound) string {
	return "Capacity of the " + b.name + ":\n\n" +
		"| build | × capacity | offered/s | goodput/s | refused | lost | p50 ms | p99 ms | refusals p99 ms | RSS MiB | goroutines | operators, slowest ms |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
}

func row(build string, multiple, rate float64, s sample) string {
	share := func(n int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(s.Sent, 1))) }
	return fmt.Sprintf("| %s | %.1f | %.0f | %.0f | %s | %s | %s | %s | %s | %d | %d | %s |",
		build, multiple, rate, s.Goodput(), share(s.Refused), share(s.Lost), ms(s.P50), ms(s.P99), ms(s.RefusedP99),
		s.memory>>20, s.Goroutines, ms(s.Slowest)+", "+s.Page)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond)) }
