// Package process starts the programs under measurement, and reads their processor time and memory from Linux.
package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"time"
)

const (
	// startup bounds how long a process may take to log where it listens.
	startup = 30 * time.Second
	// shutdown bounds how long a process may take to exit after SIGINT.
	shutdown = 20 * time.Second
	// quiet is how long the memory of a process must stay the same to count as settled, and settling how long to wait for that.
	quiet    = 3 * time.Second
	settling = 15 * time.Second
)

// Process is a running program.
type Process struct {
	cmd *exec.Cmd

	mu  sync.Mutex // guards log
	log bytes.Buffer
}

// Start starts a program. The caller must call [Process.Stop]. When ctx ends, the program is killed.
func Start(ctx context.Context, name string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.CommandContext(ctx, name, args...)}
	p.cmd.Stderr = p
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	return p, nil
}

// Write collects the log of the program.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

// Log returns the log of the program so far.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// Attr waits until the program has logged an attribute, in the text format of slog, and returns its value.
func (p *Process) Attr(name string) (string, error) {
	pattern := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `="?([^"\s]+)"?(\s.*)?\n`)
	for deadline := time.Now().Add(startup); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if match := pattern.FindStringSubmatch(p.Log()); match != nil {
			return match[1], nil
		}
	}
	return "", fmt.Errorf("no %s= in the log after %s:\n%s", name, startup, p.Log())
}

// RSS waits until the resident memory of the process has settled and returns it, in bytes.
func (p *Process) RSS() (int64, error) {
	last, since := int64(0), time.Now()
	for deadline := time.Now().Add(settling); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		now, err := rss(p.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		if now-last > last/200 || last-now > last/200 {
			last, since = now, time.Now()
		}
		if time.Since(since) > quiet {
			break
		}
	}
	return last, nil
}

func rss(pid int) (int64, error) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(statm)
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm: %q", statm)
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// Usage returns the processor time of the process since its start and its resident memory now, in bytes.
func (p *Process) Usage() (cpu time.Duration, memory int64, err error) {
	if cpu, err = processorTime(p.cmd.Process.Pid); err != nil {
		return 0, 0, fmt.Errorf("processor time: %w", err)
	}
	memory, err = rss(p.cmd.Process.Pid)
	return cpu, memory, err
}

// Stop sends SIGINT, after which a gateway waits for no load balancer, and waits until the program has exited. It kills a program that takes too long.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	overdue := time.AfterFunc(shutdown, func() { _ = p.cmd.Process.Kill() })
	defer overdue.Stop()
	return p.cmd.Wait()
}

// Kill ends the program at once and waits until it has exited.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = p.cmd.Wait() // says that it was killed
	return nil
}

// Descriptors returns how many file descriptors the process has open.
func (p *Process) Descriptors() (int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	return len(entries), err
}
