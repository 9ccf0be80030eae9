package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

const (
	// memoryRuns is how often the memory of each build is measured: it varies little.
	memoryRuns = 3
	// manyUpstreams of manyPrompts are a large catalog.
	manyUpstreams, manyPrompts = 1000, 100
	// releaseTime is how long after it is ready a gateway may take to give back the memory that only its start needed. On a busy machine
	// that is a quarter of what it holds when it says that it is ready.
	releaseTime = 2 * time.Second
)

// compareMemory measures resident memory, of two builds in turns. Unlike under a load, they do not run at the same time.
func compareMemory(ctx context.Context, s settings) error {
	builds := []string{s.promptweir()}
	if s.against != "" {
		builds = append(builds, s.against)
	}
	fmt.Printf("\n| resident memory, medians of %d runs | new | old | ratio |\n| --- | --- | --- | --- |\n", memoryRuns)
	for _, c := range []struct {
		name    string
		measure func(ctx context.Context, st *stage, build string) (float64, error)
	}{
		{"KiB per listener of 2026-07-28", func(ctx context.Context, st *stage, build string) (float64, error) {
			return listenerMemory(ctx, st, build, false)
		}},
		{"KiB per listener of 2025-11-25", func(ctx context.Context, st *stage, build string) (float64, error) {
			return listenerMemory(ctx, st, build, true)
		}},
		{"MiB with 1000 upstreams of 100 prompts", catalogMemory},
	} {
		if !s.only.MatchString(c.name) {
			continue
		}
		values := make([][]float64, len(builds))
		for run := range memoryRuns {
			for turn := range builds {
				i := (run + turn) % len(builds)
				st := &stage{settings: s}
				value, err := c.measure(ctx, st, builds[i])
				st.close()
				if err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
				values[i] = append(values[i], value)
			}
		}
		cells := fmt.Sprintf("%.1f |", rig.MedianInterval(values[0]).Median)
		if len(builds) > 1 {
			latest, old := rig.MedianInterval(values[0]), rig.MedianInterval(values[1])
			cells = fmt.Sprintf("%.1f (%.1f–%.1f) | %.1f (%.1f–%.1f) | **%.3f**", latest.Median, latest.Low, latest.High, old.Median, old.Low, old.High, latest.Median/old.Median)
		}
		fmt.Printf("| %s | %s |\n", c.name, cells)
	}
	return nil
}

// listenerMemory is what each of many open streams adds, in KiB.
func listenerMemory(ctx context.Context, st *stage, build string, legacy bool) (float64, error) {
	_, block, err := st.upstream(ctx)
	if err != nil {
		return 0, err
	}
	gateway, err := st.gateway(ctx, spec{build: build, upstream: block})
	if err != nil {
		return 0, err
	}
	each, c, err := perListener(ctx, gateway.Process, st.listeners, legacy, "")
	if err != nil {
		return 0, err
	}
	c.close()
	return each, nil
}

// catalogMemory is what the gateway holds once it has listed very many upstreams, in MiB.
func catalogMemory(ctx context.Context, st *stage, build string) (float64, error) {
	up, block, err := st.upstream(ctx, "-prompts", strconv.Itoa(manyPrompts))
	if err != nil {
		return 0, err
	}
	var blocks strings.Builder
	for i := range manyUpstreams {
		fmt.Fprintf(&blocks, "  upstream \"u%04d\" { url = \"%s/%d\" }\n", i, up.Endpoint, i)
	}
	gateway, err := st.gateway(ctx, spec{build: build, upstream: block, pageSize: 1000, rules: blocks.String()})
	if err != nil {
		return 0, err
	}
	client := rig.Client{Endpoint: gateway.Endpoint}
	err = rig.Eventually(time.Minute, func() error {
		names, err := client.Walk(ctx, 0)
		if want := (manyUpstreams + 1) * manyPrompts; err == nil && len(names) != want {
			err = fmt.Errorf("the gateway lists %d prompts, want %d", len(names), want)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	if err := rig.Pause(ctx, releaseTime); err != nil {
		return 0, err
	}
	resident, err := gateway.RSS()
	return float64(resident) / (1 << 20), err
}
