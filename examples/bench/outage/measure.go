//go:build unix

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/process"
)

// bound is how long the gateway may take to start, and for a reload.
const bound = time.Minute

// validate measures the command of that name, which people run before each commit.
func validate(ctx context.Context, s settings, folder string) ([]figure, error) {
	const runs = 3
	var times, processor, memory []float64
	for range runs {
		cmd := exec.CommandContext(ctx, s.bin, "validate", "--config", folder)
		began := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("validate: %w\n%.2000s", err, out)
		}
		times = append(times, time.Since(began).Seconds())
		processor = append(processor, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
		if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			memory = append(memory, float64(usage.Maxrss)/1e3) // in KiB
		}
	}
	return []figure{
		{"validate", median(times), 1, "s"},
		{"validate, processor time", median(processor), 0, "s"},
		{"validate, peak memory", median(memory), 250, "MB"},
	}, nil
}

// serve measures a gateway.
func serve(ctx context.Context, s settings, w *world) (figures []figure, err error) {
	args := []string{"serve", "--config", w.folder}
	if s.pprof {
		args = append(args, "--pprof")
	}
	began := time.Now()
	gateway, err := process.Start(ctx, s.bin, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = gateway.Stop() }()
	admin, err := gateway.Attr("admin")
	if err != nil {
		return nil, err
	}
	if err := ready(ctx, admin); err != nil {
		return nil, err
	}
	figures = append(figures, figure{"start, until ready", time.Since(began).Seconds(), 0, "s"})

	time.Sleep(s.settle)
	before, _, err := gateway.Usage()
	if err != nil {
		return nil, err
	}
	time.Sleep(s.watch)
	after, memory, err := gateway.Usage()
	if err != nil {
		return nil, err
	}
	figures = append(figures,
		figure{"reconnecting", (after - before).Seconds() / s.watch.Seconds(), 0.3, "cores"},
		figure{"memory", float64(memory) / 1e6, 400, "MB"})

	reconnecting := (after - before).Seconds() / s.watch.Seconds()
	reloads, err := reload(s, w, gateway, reconnecting)
	if err != nil {
		return nil, err
	}
	_, memory, err = gateway.Usage()
	if err != nil {
		return nil, err
	}
	figures = append(figures, reloads...)
	figures = append(figures, figure{"memory after reloads", float64(memory) / 1e6, 400, "MB"})
	if s.pprof {
		fmt.Printf("%s/debug/pprof/; Enter to go on ", admin)
		_, _ = fmt.Scanln()
	}
	return figures, nil
}

// ready waits until the gateway is ready.
func ready(ctx context.Context, admin string) error {
	for deadline := time.Now().Add(bound); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			continue
		}
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return nil
		}
	}
	return fmt.Errorf("not ready after %s", bound)
}

// reload measures how long it takes until a changed file is in use, and the processor time of that beside reconnecting, in cores.
// The gateway waits for 0.2 s, in case there are more changes.
func reload(s settings, w *world, gateway *process.Process, reconnecting float64) ([]figure, error) {
	var times, processor []float64
	for i := range s.reloads {
		began, reloaded := time.Now(), strings.Count(gateway.Log(), "configuration reloaded")
		before, _, err := gateway.Usage()
		if err != nil {
			return nil, err
		}
		if err := w.write(s.teams/2, 31+i); err != nil {
			return nil, err
		}
		for strings.Count(gateway.Log(), "configuration reloaded") == reloaded {
			if time.Since(began) > bound {
				return nil, fmt.Errorf("no reload after %s: %w\n%.2000s", bound, os.ErrDeadlineExceeded, gateway.Log())
			}
			time.Sleep(5 * time.Millisecond)
		}
		times = append(times, time.Since(began).Seconds())
		time.Sleep(2 * time.Second) // what the change caused is over
		after, _, err := gateway.Usage()
		if err != nil {
			return nil, err
		}
		processor = append(processor, (after-before).Seconds()-reconnecting*time.Since(began).Seconds())
	}
	return []figure{
		{"reload after one changed file", median(times), 1, "s"},
		{"reload, processor time", median(processor), 0, "s"},
	}, nil
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}
