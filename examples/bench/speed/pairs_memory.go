package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/examples/bench/internal/client"
)

const (
	// memoryRuns is how often the memory of each build is measured: it varies little.
	memoryRuns    = 3
	pairListeners = 10_000
	openers       = 64 // streams that are opened at a time
	// releaseTime is how long after it is ready a gateway may take to give back the memory that only its start needed. On a busy machine
	// that is a quarter of what it holds when it says that it is ready.
	releaseTime = 2 * time.Second
)

// memoryCase measures resident memory of one build, in bytes.
type memoryCase struct {
	name, unit string
	scale      float64 // bytes of the unit
	measure    func(context.Context, *stage) (float64, error)
}

// compareMemory compares what both builds hold, in turns. Unlike the loads, they do not run at the same time.
func compareMemory(ctx context.Context, s settings) error {
	headed := false
	for _, c := range []memoryCase{
		{"memory per listener of 2026-07-28", "KiB", 1 << 10, func(ctx context.Context, st *stage) (float64, error) { return listenerMemory(ctx, st, false) }},
		{"memory per listener of 2025-11-25", "KiB", 1 << 10, func(ctx context.Context, st *stage) (float64, error) { return listenerMemory(ctx, st, true) }},
		{"memory with 1000 upstreams of 100 prompts", "MiB", 1 << 20, catalogMemory},
	} {
		if !s.only.MatchString(c.name) {
			continue
		}
		if !headed {
			fmt.Printf("\n| resident memory, %d runs | old | new | ratio of the medians |\n| --- | --- | --- | --- |\n", memoryRuns)
			headed = true
		}
		var values [2][]float64
		for run := range memoryRuns {
			for turn := range values {
				i := (run + turn) % len(values)
				st := newStage(s)
				st.build = s.builds()[i]
				value, err := c.measure(ctx, st)
				st.close()
				if err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
				values[i] = append(values[i], value/c.scale)
			}
		}
		old, latest := medianInterval(values[0]), medianInterval(values[1])
		fmt.Printf("| %s | %.1f %s (%.1f–%.1f) | %.1f %s (%.1f–%.1f) | **%.3f** |\n", c.name,
			old.median, c.unit, old.low, old.high, latest.median, c.unit, latest.low, latest.high, latest.median/old.median)
	}
	return nil
}

// listenerMemory is what each of many open streams adds.
func listenerMemory(ctx context.Context, st *stage, legacy bool) (float64, error) {
	up, err := st.reference(ctx, "upstream")
	if err != nil {
		return 0, err
	}
	gateway, err := st.gateway(ctx, settingsOf{upstream: at(up, ""), pageSize: 100})
	if err != nil {
		return 0, err
	}
	before, err := gateway.RSS()
	if err != nil {
		return 0, err
	}
	conns := make([]*client.Conn, pairListeners)
	defer func() {
		for _, conn := range conns {
			if conn != nil {
				_ = conn.Close()
			}
		}
	}()
	var opening errgroup.Group
	opening.SetLimit(openers)
	for i := range conns {
		opening.Go(func() (err error) {
			if conns[i], err = client.Dial(ctx, gateway.address()); err != nil {
				return err
			}
			c := client.Client{Endpoint: gateway.endpoint, Legacy: legacy, Transport: conns[i]}
			if legacy {
				if err := c.Initialize(ctx); err != nil {
					return err
				}
			}
			_, err = c.Listen(ctx) // ends with its connection
			return err
		})
	}
	if err := opening.Wait(); err != nil {
		return 0, err
	}
	after, err := gateway.RSS()
	return float64(after-before) / pairListeners, err
}

// catalogMemory is what the gateway holds once it has listed very many upstreams.
func catalogMemory(ctx context.Context, st *stage) (float64, error) {
	up, err := st.reference(ctx, "upstream", "-prompts", strconv.Itoa(startupPrompts))
	if err != nil {
		return 0, err
	}
	gateway, err := st.gateway(ctx, settingsOf{upstream: at(up, ""), pageSize: 1000, more: manyUpstreams(up)})
	if err != nil {
		return 0, err
	}
	select {
	case <-time.After(releaseTime):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	resident, err := gateway.RSS()
	return float64(resident), err
}

// manyUpstreams are the blocks of very many upstreams, all of them the same server.
func manyUpstreams(up program) string {
	var blocks strings.Builder
	for i := range startupUpstreams {
		fmt.Fprintf(&blocks, "  upstream \"u%04d\" { url = \"%s/%d\" }\n", i, up.endpoint, i)
	}
	return blocks.String()
}
