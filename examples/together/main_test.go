package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// asMain is the variable that makes the test binary run as the command.
const asMain = "TOGETHER_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestTogether_SignalStopsAll(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			const script = `trap 'echo asked; exit 0' INT; echo ready; i=0; while [ $i -lt 1000 ]; do sleep 0.01; i=$((i+1)); done`
			cmd := exec.CommandContext(t.Context(), os.Args[0], "sh", "-c", script, "+", "sh", "-c", script)
			cmd.Env = append(os.Environ(), asMain+"=1")
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			said := map[string]int{}
			for lines := bufio.NewScanner(stdout); lines.Scan(); { // ends when all processes have closed it
				said[lines.Text()]++
				if lines.Text() == "ready" && said["ready"] == 2 {
					if err := cmd.Process.Signal(signal); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("together ends with %v", err)
			}
			if diff := cmp.Diff(map[string]int{"ready": 2, "asked": 2}, said); diff != "" {
				t.Errorf("said (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSplit_CutsAtPlus(t *testing.T) {
	for args, want := range map[string][][]string{
		"":            nil,
		"+":           nil,
		"a":           {{"a"}},
		"a -x + b":    {{"a", "-x"}, {"b"}},
		"+ a + + b +": {{"a"}, {"b"}},
	} {
		if diff := cmp.Diff(want, split(strings.Fields(args))); diff != "" {
			t.Errorf("split(%q) (-want +got):\n%s", args, diff)
		}
	}
}

func TestRun_FirstToEndStopsTheOthers(t *testing.T) {
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt) // as in main: commands would ignore what whoever runs the test ignores
	defer stop()
	began := time.Now()
	err := run(ctx, [][]string{{"sleep", "60"}, {"false"}})
	if err == nil || !strings.Contains(err.Error(), "false ended by itself") {
		t.Errorf("run = %v, want who ended", err)
	}
	if took := time.Since(began); took > grace {
		t.Errorf("run took %s, want the other command told to end", took)
	}
}

func TestRun_StoppingIsNotAnError(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := run(ctx, [][]string{{"sleep", "60"}, {"sleep", "60"}}); err != nil {
		t.Errorf("run = %v, want nil", err)
	}
}
