package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/load"
	"github.com/promptweir/promptweir/examples/bench/internal/process"
)

// contestant is a process under measurement, with its requests.
type contestant struct {
	name    string
	process *process.Process
	request load.Request
}

// sample is the result of one turn.
type sample struct {
	rate     float64 // requests per second
	p50, p99 time.Duration
	cpu      float64 // microseconds of processor time per request
	memory   int64
	// objects and bytes are allocations per request; only takeWithAllocations sets them.
	objects, bytes float64
}

// row holds the samples of all turns.
type row []sample

// mean returns the means of the samples, of turns of one length.
func (r row) mean() sample {
	var all sample
	n := len(r)
	for _, s := range r {
		all.rate += s.rate / float64(n)
		all.p50 += s.p50 / time.Duration(n)
		all.p99 += s.p99 / time.Duration(n)
		all.cpu += s.cpu / float64(n)
		all.memory += s.memory / int64(n)
		all.objects += s.objects / float64(n)
		all.bytes += s.bytes / float64(n)
	}
	return all
}

func (c contestant) take(ctx context.Context, connections int, length time.Duration) (sample, error) {
	return c.measure(ctx, connections, length, func() (heapUse, error) { return heapUse{}, nil })
}

// takeWithAllocations also counts allocations. The process must be a gateway, whose metrics have them.
func (c contestant) takeWithAllocations(ctx context.Context, connections int, length time.Duration) (sample, error) {
	return c.measure(ctx, connections, length, func() (heapUse, error) { return c.allocations(ctx) })
}

func (c contestant) measure(ctx context.Context, connections int, length time.Duration, heap func() (heapUse, error)) (sample, error) {
	var heapBefore, heapAfter heapUse
	var cpuBefore, cpuAfter time.Duration
	var memory int64
	var beforeErr, usageErr, afterErr error
	result, err := load.Run(ctx, c.request, connections, length, func() {
		heapBefore, beforeErr = heap()
		cpuBefore, _, usageErr = c.process.Usage()
	}, func() {
		cpuAfter, memory, usageErr = c.process.Usage()
		heapAfter, afterErr = heap()
	})
	if err := errors.Join(err, beforeErr, usageErr, afterErr); err != nil {
		return sample{}, fmt.Errorf("%w\n%s", err, c.process.Log())
	}
	if result.Broken > 0 {
		slog.WarnContext(ctx, "connections broke during a response", slog.String("program", c.name), slog.Int("broken", result.Broken), slog.Int("responses", result.Requests))
	}
	requests := float64(result.Requests)
	return sample{
		rate: result.Rate(), p50: result.P50, p99: result.P99, memory: memory,
		cpu:     float64((cpuAfter - cpuBefore).Nanoseconds()) / 1e3 / requests,
		objects: (heapAfter.objects - heapBefore.objects) / requests, bytes: (heapAfter.bytes - heapBefore.bytes) / requests,
	}, nil
}

func heading() string {
	return "| case | connections | program | req/s | p50 ms | p99 ms | CPU µs/req | RSS MB | req/s ratio (spread) | CPU ratio | p99 ratio |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
}

// line is a row of the table: medians, and the medians of the ratios to the baseline within each turn.
func line(c benchmark, program string, r, baseline row, isBaseline bool) string {
	rate := func(s sample) float64 { return s.rate }
	cpu := func(s sample) float64 { return s.cpu }
	p99 := func(s sample) float64 { return float64(s.p99) }
	ms := func(of func(sample) time.Duration) float64 {
		return median(r, func(s sample) float64 { return float64(of(s)) / float64(time.Millisecond) })
	}
	text := fmt.Sprintf("| %s | %d | %s | %.0f | %.2f | %.1f | %.1f | %.0f |", c.name, c.connections, program, median(r, rate),
		ms(func(s sample) time.Duration { return s.p50 }), ms(func(s sample) time.Duration { return s.p99 }),
		median(r, cpu), median(r, func(s sample) float64 { return float64(s.memory) / 1e6 }))
	if isBaseline {
		return text + " 1 | 1 | 1 |"
	}
	low, middle, high := ratios(r, baseline, rate)
	_, cpuRatio, _ := ratios(r, baseline, cpu)
	_, p99Ratio, _ := ratios(r, baseline, p99)
	return text + fmt.Sprintf(" **%.2f** (%.2f–%.2f) | %.2f | %.2f |", middle, low, high, cpuRatio, p99Ratio)
}

func median(r row, of func(sample) float64) float64 {
	values := make([]float64, len(r))
	for i := range r {
		values[i] = of(r[i])
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// ratios returns the least, the median and the greatest of the ratios of two rows, turn by turn.
func ratios(r, to row, of func(sample) float64) (low, middle, high float64) {
	values := make([]float64, len(r))
	for i := range r {
		values[i] = of(r[i]) / of(to[i])
	}
	slices.Sort(values)
	return values[0], values[len(values)/2], values[len(values)-1]
}
