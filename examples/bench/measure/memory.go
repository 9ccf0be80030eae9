package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest"

	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

const (
	// memoryRuns is how often the memory of each build is measured: it varies little.
	memoryRuns = 3
	// manyUpstreams of manyPrompts are a large catalog.
	manyUpstreams, manyPrompts = 1000, 100
	// releaseTime is how long after it is ready a gateway may take to give back the memory that only its
	// start needed. On a busy machine that is a quarter of what it holds when it says that it is ready.
	releaseTime = 2 * time.Second
	// openers is how many streams are opened at a time.
	openers = 64
)

// compareMemory measures resident memory, of two builds in turns. Unlike under a load, they do not run at
// the same time.
func (s *settings) compareMemory(ctx context.Context) error {
	builds := []string{s.build}
	if s.against != "" {
		builds = append(builds, s.against)
	}
	fmt.Printf("\n| resident memory, medians of %d runs | build | older build | ratio |\n| --- | --- | --- | --- |\n", memoryRuns)
	for _, c := range []struct {
		name    string
		measure func(st *rig.Stage, build string) float64
	}{
		{"KiB per listener of 2026-07-28", s.listenerMemory(false)},
		{"KiB per listener of 2025-11-25", s.listenerMemory(true)},
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

// listenerMemory returns what measures the memory that each of many open streams adds to a gateway, in
// KiB.
func (s *settings) listenerMemory(legacy bool) func(st *rig.Stage, build string) float64 {
	return func(st *rig.Stage, build string) float64 {
		gateway := s.gateway(st, build, upstreams([]string{server{}.start(st).Endpoint}), "")
		before := gateway.RSS()
		var group errgroup.Group
		group.SetLimit(openers)
		conns := make([]*rig.Conn, s.listeners)
		st.Defer(func() {
			for _, conn := range conns {
				if conn != nil {
					_ = conn.Close()
				}
			}
		})
		for i := range conns {
			group.Go(func() (err error) {
				if conns[i], err = rig.Dial(st.Context(), gateway.Address(), 512); err != nil {
					return err
				}
				client := upstreamtest.Client{Endpoint: gateway.Endpoint, Legacy: legacy, Transport: conns[i]}
				if err = client.Initialize(st.Context()); err == nil {
					_, err = client.Listen(st.Context(), "")
				}
				return err
			})
		}
		rig.Check(group.Wait())
		return float64(gateway.RSS()-before) / float64(s.listeners) / (1 << 10)
	}
}

// catalogMemory is what the gateway holds once it has listed very many upstreams, in MiB.
func (s *settings) catalogMemory(st *rig.Stage, build string) float64 {
	up := server{Prompts: manyPrompts}.start(st)
	var blocks strings.Builder
	for i := range manyUpstreams {
		fmt.Fprintf(&blocks, "  upstream \"u%04d\" { url = \"%s/%d\" }\n", i, up.Endpoint, i)
	}
	gateway := s.gateway(st, build, blocks.String(), "")
	client := upstreamtest.Client{Endpoint: gateway.Endpoint}
	rig.Check(rig.Eventually(time.Minute, func() error {
		names, err := client.Walk(st.Context())
		if want := manyUpstreams * manyPrompts; err == nil && len(names) != want {
			err = fmt.Errorf("the gateway lists %d prompts, want %d", len(names), want)
		}
		return err
	}))
	st.Pause(releaseTime)
	return float64(gateway.RSS()) / (1 << 20)
}
