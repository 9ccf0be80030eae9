//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/process"
)

// checkOneWatcher has gateways of one, three and ten replicas follow a server: it has one standing connection, and is listed once for each
// change.
func checkOneWatcher(ctx context.Context, _ *world, s *settings) (string, error) {
	var all []string
	for _, n := range []int{1, 3, 10} {
		seen, err := watchers(ctx, s, n)
		if err != nil {
			return "", fmt.Errorf("%d replicas: %w", n, err)
		}
		all = append(all, seen)
	}
	return strings.Join(all, "; "), nil
}

// watchers checks a number of replicas.
func watchers(ctx context.Context, s *settings, n int) (string, error) {
	w, err := newWorld(ctx, s, design{replicas: n})
	defer w.close()
	if err != nil {
		return "", err
	}
	if err := w.plain.awaitStreams(1); err != nil {
		return "", err
	}
	const changes = 5
	before, longest := w.plain.lists.Load(), slowest(0)
	for range changes {
		time.Sleep(changeInterval) // the gateway lists a few times a second at most
		began := time.Now()
		if err := w.awaitEverywhere(ctx, w.change()); err != nil {
			return "", err
		}
		longest.since(began)
		if streams := len(w.plain.standing()); streams != 1 {
			return "", fmt.Errorf("%d standing connections, want 1", streams)
		}
	}
	if lists := w.plain.lists.Load() - before; lists != changes {
		return "", fmt.Errorf("%d changes took %d lists, want as many", changes, lists)
	}
	return fmt.Sprintf("%d replicas: %d changes, %d lists, 1 standing connection, everywhere after %v at most", n, changes, changes, &longest), nil
}

// awaitStreams waits until the gateways have a number of streams of changes open.
func (o *offering) awaitStreams(want int) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		streams := len(o.standing())
		if streams == want {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d standing connections after %v, want %d", streams, patience, want)
		}
	}
}

// checkStoppedWatcher stops the replica that watches the server, has the list change, and lets it go on: another one takes its place within
// 10 s, and nobody goes back to an earlier list.
func checkStoppedWatcher(ctx context.Context, w *world, s *settings) (string, error) {
	if err := w.plain.awaitStreams(1); err != nil {
		return "", err
	}
	holder, err := w.watcher()
	if err != nil {
		return "", err
	}
	stopped := time.Now()
	if err := w.gateways[holder].Pause(); err != nil {
		return "", err
	}
	resume := sync.OnceValue(w.gateways[holder].Resume)
	defer func() { _ = resume() }()
	marks := make([]int, len(w.gateways))
	mark, taken := w.change(), time.Duration(0)
	length := 30 * time.Second
	if s.short {
		length = 10 * time.Second
	}
	for time.Since(stopped) < length {
		behind, err := w.moveOn(ctx, marks, mark, holder)
		if err != nil {
			return "", err
		}
		if behind == 0 && taken == 0 {
			taken = time.Since(stopped)
			mark = w.change() // the new watcher is told of this one
		}
	}
	if taken == 0 || taken > patience {
		return "", fmt.Errorf("the other replicas have the change after %v, want %v at most", taken, patience)
	}
	if err := resume(); err != nil {
		return "", err
	}
	resumed, back := time.Now(), time.Duration(0)
	for time.Since(resumed) < patience {
		behind, err := w.moveOn(ctx, marks, mark, -1)
		if err != nil {
			return "", fmt.Errorf("after the replica goes on: %w", err)
		}
		if behind == 0 && back == 0 {
			back = time.Since(resumed)
		}
	}
	if back == 0 {
		return "", errors.New("the replica that was stopped does not have the change")
	}
	return fmt.Sprintf("the others have a change %.1f s after the watcher was stopped; it has it %.1f s after it goes on, %v later; nobody went back",
		taken.Seconds(), back.Seconds(), length), w.plain.awaitStreams(1)
}

// moveOn lists at each replica but one, notes the marks, and returns how many replicas have an earlier one than the newest. An error means
// that a replica went back.
func (w *world) moveOn(ctx context.Context, marks []int, newest, stopped int) (behind int, err error) {
	for i := range w.gateways {
		if i == stopped {
			continue
		}
		f := &follower{w: w.at(i)}
		if err := f.list(ctx); err != nil {
			return 0, err
		}
		if f.mark < marks[i] {
			return 0, fmt.Errorf("replica %d lists change %d after it listed %d", i+1, f.mark, marks[i])
		}
		if marks[i] = f.mark; f.mark < newest {
			behind++
		}
	}
	return behind, nil
}

// watcher returns the replica that has the standing connection to the server.
func (w *world) watcher() (int, error) {
	for _, address := range w.plain.standing() {
		for i, g := range w.gateways {
			if owns(g.Process, address) {
				return i, nil
			}
		}
	}
	return 0, errors.New("no replica has the standing connection")
}

// owns reports whether a process has a connection from an address. Only Linux tells.
func owns(p *process.Process, address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	folder := fmt.Sprintf("/proc/%d/", p.PID())
	table, err := os.ReadFile(folder + "net/tcp")
	if err != nil {
		return false
	}
	var number int
	if _, err := fmt.Sscan(port, &number); err != nil {
		return false
	}
	const local, inode = 1, 9
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) <= inode || !strings.HasSuffix(fields[local], fmt.Sprintf(":%04X", number)) {
			continue
		}
		links, _ := filepath.Glob(folder + "fd/*") // an error is about the pattern
		for _, link := range links {
			if target, err := os.Readlink(link); err == nil && target == "socket:["+fields[inode]+"]" {
				return true
			}
		}
	}
	return false
}
