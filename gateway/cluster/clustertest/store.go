//go:build unix

package clustertest

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// patience bounds the wait for a program to start, and for its answer.
const patience = 20 * time.Second

// Store is a running store. Its methods are for the test's goroutine.
type Store struct {
	// Port is where it listens, on 127.0.0.1.
	Port int

	tb      testing.TB
	program string
	args    []string
	running *process // nil while there is none
	// output is what the program that started last has said.
	output *bytes.Buffer
}

// process is a program that runs until ended is closed.
type process struct {
	*os.Process

	ended chan struct{}
}

// Start starts an empty store with further arguments, which keeps nothing on disk, until the test ends.
func Start(tb testing.TB, args ...string) *Store {
	tb.Helper()
	s := &Store{tb: tb, program: find(tb, "valkey-server", "redis-server"), args: args}
	tb.Cleanup(s.Kill)
	s.Port = int(netip.MustParseAddrPort(upstreamtest.Address(tb)).Port())
	if !s.start() {
		tb.Fatalf("%s does not start:\n%s", s.program, s.output.String())
	}
	return s
}

// StartSentinel starts a Sentinel that watches a store under a name.
func StartSentinel(tb testing.TB, name string, store *Store, settings ...string) *Store {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "sentinel.conf") // it writes there
	text := fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1\n", name, store.Port)
	if err := os.WriteFile(path, []byte(text+strings.Join(settings, "\n")+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	return Start(tb, path, "--sentinel")
}

// URL returns the store's address as a configuration has it.
func (s *Store) URL() string { return fmt.Sprintf("redis://127.0.0.1:%d", s.Port) }

// Restart starts a store again, empty and at the same address, after [Store.Kill].
func (s *Store) Restart() {
	s.tb.Helper()
	if !s.start() {
		s.tb.Fatalf("%s does not start again:\n%s", s.program, s.output.String())
	}
}

// start reports whether the store answers.
func (s *Store) start() bool {
	s.tb.Helper()
	var args []string
	if n := len(s.args); n > 0 && strings.HasSuffix(s.args[0], ".conf") {
		args = s.args
	} else {
		args = append([]string{"--save", "", "--appendonly", "no", "--dir", s.tb.TempDir()}, s.args...)
	}
	args = append(args, "--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1")
	cmd := exec.Command(s.program, args...) //nolint:noctx // it ends with the test
	s.output = &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = s.output, s.output
	if err := cmd.Start(); err != nil {
		s.tb.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed
		close(ended)
	}()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		select {
		case <-ended:
			return false
		default:
		}
		if s.Command("PING") != "" {
			s.running = &process{cmd.Process, ended}
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	_ = cmd.Process.Kill()
	<-ended
	return false
}

// Kill ends the store as kill -9 does.
func (s *Store) Kill() {
	if s.running == nil {
		return
	}
	s.signal(syscall.SIGKILL)
	<-s.running.ended
	s.running = nil
}

// Pause has the store hang: it keeps its connections and answers nothing.
func (s *Store) Pause() { s.signal(syscall.SIGSTOP) }

// Resume ends [Store.Pause].
func (s *Store) Resume() { s.signal(syscall.SIGCONT) }

func (s *Store) signal(signal os.Signal) {
	if err := s.running.Signal(signal); err != nil {
		s.tb.Errorf("signal the store: %v", err)
	}
}

// Command returns what the store answers to a command first, as the protocol has it; empty where it does not.
func (s *Store) Command(words ...string) string {
	c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port), patience) //nolint:noctx // it has a timeout
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte(strings.Join(words, " ") + "\r\n")); err != nil {
		return ""
	}
	answer := make([]byte, 1<<20)
	n, _ := c.Read(answer)
	return string(answer[:n])
}

func find(tb testing.TB, programs ...string) string {
	tb.Helper()
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	tb.Fatalf("none of %s is installed: apt-get install redis-server", strings.Join(programs, ", "))
	return ""
}
