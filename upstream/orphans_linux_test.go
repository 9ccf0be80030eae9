package upstream_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// daemons waits until the log names as many processes, and returns them.
func daemons(t *testing.T, log *lockedBuffer, n int) (pids []int) {
	t.Helper()
	pattern := regexp.MustCompile(`daemon (\d+)`)
	upstreamtest.Eventually(t, "the daemons have started", func() bool {
		pids = nil
		for _, found := range pattern.FindAllStringSubmatch(log.String(), -1) {
			pid, _ := strconv.Atoi(found[1])
			pids = append(pids, pid)
		}
		return len(pids) >= n
	})
	return pids
}

func TestChild_LeavesNoDescendantInAnotherSession(t *testing.T) {
	t.Parallel()
	_, otherLog, _ := startScript(t, "daemon")
	others := daemons(t, otherLog, 1)
	for fault, n := range map[string]int{"daemon": 1, "session": 1, "family": 2} {
		for _, end := range []string{"stop", "kill"} {
			t.Run(fault+" "+end, func(t *testing.T) {
				c, log, stop := startScript(t, fault)
				waitForNames(t, c, "scripted")
				pids := daemons(t, log, n)
				if end == "stop" {
					stop()
				} else if err := kill(number(t, log, `"pid`)); err != nil {
					t.Fatal(err)
				}
				for _, pid := range pids {
					upstreamtest.Eventually(t, "it is gone, and no zombie", func() bool { return !exists(pid) })
				}
			})
		}
	}
	if !exists(others[0]) || isZombie(others[0]) {
		t.Error("the orphan of a child that runs was ended too")
	}
}

func TestChild_OrphansThatExitAreReaped(t *testing.T) {
	t.Parallel()
	_, log, _ := startScript(t, "short-daemons")
	for _, pid := range daemons(t, log, 20) {
		upstreamtest.Eventually(t, "it is reaped", func() bool { return !exists(pid) })
	}
}

// Whoever waits for a process of his own must get its status, while orphans come and go.
func TestChild_ReapingStealsNoStatus(t *testing.T) {
	t.Parallel()
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for range 100 {
				command := exec.CommandContext(t.Context(), "sh", "-c", "setsid true & exit 7")
				if err := command.Run(); command.ProcessState == nil || command.ProcessState.ExitCode() != 7 {
					t.Errorf("Run() = %v", err)
				}
			}
		})
	}
	for range 5 {
		c, log, stop := startScript(t, "short-daemons")
		waitForNames(t, c, "scripted")
		daemons(t, log, 20)
		stop()
	}
	running.Wait()
	// Nothing is left of all that.
	upstreamtest.Eventually(t, "no zombie is left", func() bool {
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, path := range stats {
			content, _ := os.ReadFile(path)
			if fields := strings.Fields(string(content)); len(fields) > 3 && fields[1] == "(true)" && fields[2] == "Z" && fields[3] == strconv.Itoa(os.Getpid()) {
				return false
			}
		}
		return true
	})
}
