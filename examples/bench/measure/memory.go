package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
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

const (
	downTeams, downUpstreams = 2000, 5
	// downSettles is how long reconnects may become rarer before they are measured, and downWatch how long they are.
	downSettles, downWatch = 20 * time.Second, 30 * time.Second
)

// measureOutage measures what a gateway costs while every server that it knows is down, beside targets: those of 2 000 team files with
// five upstreams each, behind a port on which nobody listens.
func measureOutage(ctx context.Context, s settings) error {
	folder, err := os.MkdirTemp("", "outage")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	address, err := rig.FreeAddress(ctx)
	if err != nil {
		return err
	}
	const platform = "gateway { listen = \"127.0.0.1:0\" }\nadmin { listen = \"127.0.0.1:0\" }\n"
	if err := os.WriteFile(filepath.Join(folder, "platform.hcl"), []byte(platform), 0o600); err != nil {
		return err
	}
	for team := range downTeams {
		if err := writeTeam(folder, address, team, 30); err != nil {
			return err
		}
	}
	fmt.Println("| all servers are down | measured | target |\n| --- | --- | --- |")
	began := time.Now()
	validate := exec.CommandContext(ctx, s.promptweir(), "validate", "--config", folder)
	if out, err := validate.CombinedOutput(); err != nil {
		return fmt.Errorf("validate: %w\n%.2000s", err, out)
	}
	fmt.Printf("| validate | %.2f s | 1 s |\n", time.Since(began).Seconds())
	if used, ok := validate.ProcessState.SysUsage().(*syscall.Rusage); ok {
		fmt.Printf("| validate, peak memory | %d MB | 250 MB |\n", used.Maxrss/1000)
	}
	began = time.Now()
	g, err := rig.Listen(ctx, s.promptweir(), "serve", "--config", folder)
	if err != nil {
		return err
	}
	defer func() { _ = g.Stop() }()
	return watchOutage(ctx, g, folder, address, began)
}

func watchOutage(ctx context.Context, g *rig.Process, folder, address string, began time.Time) error {
	admin, err := g.Attr("admin")
	if err != nil {
		return err
	}
	if err := rig.Eventually(time.Minute, func() error {
		_, err := rig.Fetch(ctx, http.MethodGet, admin+"/readyz")
		return err
	}); err != nil {
		return err
	}
	fmt.Printf("| start, until ready | %.2f s | |\n", time.Since(began).Seconds())
	if err := rig.Pause(ctx, downSettles); err != nil {
		return err
	}
	before, _, err := g.Usage()
	if err != nil {
		return err
	}
	if err := rig.Pause(ctx, downWatch); err != nil {
		return err
	}
	after, memory, err := g.Usage()
	if err != nil {
		return err
	}
	fmt.Printf("| reconnecting | %.2f cores | 0.3 cores |\n| memory | %d MB | 400 MB |\n", (after-before).Seconds()/downWatch.Seconds(), memory/1e6)
	const reloaded = "configuration reloaded"
	began, count := time.Now(), strings.Count(g.Log(), reloaded)
	if err := writeTeam(folder, address, downTeams/2, 31); err != nil {
		return err
	}
	if err := rig.Eventually(time.Minute, func() error {
		if strings.Count(g.Log(), reloaded) == count {
			return fmt.Errorf("no reload:\n%.2000s", g.Log())
		}
		return nil
	}); err != nil {
		return err
	}
	fmt.Printf("| reload after one changed file | %.2f s | 1 s |\n", time.Since(began).Seconds())
	return nil
}

// writeTeam writes the file of a team. It replaces the one that is there in one step, as editors and Git do.
func writeTeam(folder, address string, team, timeout int) error {
	var text strings.Builder
	fmt.Fprintf(&text, "team \"team%d\" {\n  members = [\"group:team-%d\"]\n", team, team)
	for i := range downUpstreams {
		fmt.Fprintf(&text, "  upstream \"t%d-s%d\" {\n    url     = \"http://%s/t%[1]d-s%[2]d\"\n    timeout = \"%[4]ds\"\n  }\n", team, i, address, timeout)
	}
	fmt.Fprintf(&text, "  expose \"to everybody\" {\n    prompts = [\"t%d-s0.*\"]\n    to      = [\"*\"]\n  }\n}\n", team)
	path := filepath.Join(folder, fmt.Sprintf("team%04d.hcl", team))
	if err := os.WriteFile(path+".new", []byte(text.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
