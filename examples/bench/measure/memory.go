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

// compareMemory measures resident memory, of two builds in turns. Unlike under a load, they do not run at
// the same time.
func compareMemory(ctx context.Context, s settings) error {
	builds := []string{s.promptweir()}
	if s.against != "" {
		builds = append(builds, s.against)
	}
	fmt.Printf("\n| resident memory, medians of %d runs | new | old | ratio |\n| --- | --- | --- | --- |\n", memoryRuns)
	listening := func(legacy bool) func(st *rig.Stage, build string) float64 {
		return func(st *rig.Stage, build string) float64 {
			_, block := upstream(st)
			gateway := s.gateway(st, spec{build: build, upstream: block})
			each, _ := perListener(st, gateway.Process, s.listeners, legacy, "")
			return each
		}
	}
	for _, c := range []struct {
		name    string
		measure func(st *rig.Stage, build string) float64
	}{
		{"KiB per listener of 2026-07-28", listening(false)},
		{"KiB per listener of 2025-11-25", listening(true)},
		{"MiB with 1000 upstreams of 100 prompts", s.catalogMemory},
	} {
		if !s.only.MatchString(c.name) {
			continue
		}
		values := make([][]float64, len(builds))
		for run := range memoryRuns {
			for turn := range builds {
				i := (run + turn) % len(builds)
				if err := rig.Run(ctx, func(st *rig.Stage) {
					values[i] = append(values[i], c.measure(st, builds[i]))
				}); err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
			}
		}
		latest := rig.MedianInterval(values[0])
		cells := fmt.Sprintf("%.1f | |", latest.Median)
		if len(builds) > 1 {
			old := rig.MedianInterval(values[1])
			cells = fmt.Sprintf("%.1f (%.1f–%.1f) | %.1f (%.1f–%.1f) | **%.3f**", latest.Median, latest.Low,
				latest.High, old.Median, old.Low, old.High, latest.Median/old.Median)
		}
		fmt.Printf("| %s | %s |\n", c.name, cells)
	}
	return nil
}

// catalogMemory is what the gateway holds once it has listed very many upstreams, in MiB.
func (s settings) catalogMemory(st *rig.Stage, build string) float64 {
	up, block := upstream(st, "-prompts", strconv.Itoa(manyPrompts))
	var blocks strings.Builder
	for i := range manyUpstreams {
		fmt.Fprintf(&blocks, "  upstream \"u%04d\" { url = \"%s/%d\" }\n", i, up.Endpoint, i)
	}
	gateway := s.gateway(st, spec{build: build, upstream: block, pageSize: 1000, rules: blocks.String()})
	client := rig.Client{Endpoint: gateway.Endpoint}
	rig.Check(rig.Eventually(time.Minute, func() error {
		names, err := client.Walk(st.Context())
		if want := (manyUpstreams + 1) * manyPrompts; err == nil && len(names) != want {
			err = fmt.Errorf("the gateway lists %d prompts, want %d", len(names), want)
		}
		return err
	}))
	st.Pause(releaseTime)
	return float64(gateway.RSS()) / (1 << 20)
}
