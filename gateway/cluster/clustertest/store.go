// Package clustertest runs a store in a test: the program valkey-server or redis-server if one is
// installed, and otherwise a stand-in in the test's process. Only tests may import this package.
package clustertest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// startTimeout bounds the wait for a program to start, and for its answer.
const startTimeout = 20 * time.Second

// memoryVariable makes tests run as if no program were installed.
const memoryVariable = "CLUSTERTEST_MEMORY"

// Store is a running store. Call its methods from the test's goroutine only.
type Store struct {
	// Port is the store's port on 127.0.0.1.
	Port int

	tb      testing.TB
	backend backend
}

// backend runs a store: the program, or the stand-in.
type backend interface {
	// start starts an empty store on a port.
	start(tb testing.TB, port int) error
	kill()
	pause()
	resume()
}

// Start runs an empty store until the test ends. The store keeps nothing on disk.
func Start(tb testing.TB) *Store {
	tb.Helper()
	program, err := installed()
	if err != nil {
		return run(tb, &memory{})
	}
	return run(tb, &process{program: program})
}

// StartServer is like [Start], but passes further arguments to the program. If no program is
// installed, it skips the test.
func StartServer(tb testing.TB, args ...string) *Store {
	tb.Helper()
	program, err := installed()
	if err != nil {
		tb.Skip(err)
	}
	return run(tb, &process{program: program, args: args})
}

// installed returns the path of the installed program, or an error if the test must use the stand-in.
func installed() (string, error) {
	if os.Getenv(memoryVariable) != "" {
		return "", errors.New(memoryVariable + " is set, so no server is run")
	}
	return find()
}

func run(tb testing.TB, backend backend) *Store {
	tb.Helper()
	s := &Store{tb: tb, backend: backend, Port: int(netip.MustParseAddrPort(upstreamtest.Address(tb)).Port())}
	tb.Cleanup(s.Kill)
	s.Restart()
	return s
}

// URL returns the store's address as a redis URL, as configurations contain it.
func (s *Store) URL() string { return fmt.Sprintf("redis://127.0.0.1:%d", s.Port) }

// Restart starts a store again, empty and at the same address, after [Store.Kill].
func (s *Store) Restart() {
	s.tb.Helper()
	if err := s.backend.start(s.tb, s.Port); err != nil {
		s.tb.Fatal(err)
	}
}

// Kill ends the store as kill -9 does.
func (s *Store) Kill() { s.backend.kill() }

// Pause makes the store hang: it keeps its connections and answers nothing.
func (s *Store) Pause() { s.backend.pause() }

// Resume ends [Store.Pause].
func (s *Store) Resume() { s.backend.resume() }

// Command sends a command and returns the raw response, up to 1 MiB; "" without a response.
func (s *Store) Command(words ...string) string { return command(s.Port, words...) }

func command(port int, words ...string) string {
	c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), startTimeout) //nolint:noctx // it has a timeout
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(startTimeout))
	request := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, word := range words {
		request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := c.Write(request); err != nil {
		return ""
	}
	answer := make([]byte, 1<<20)
	n, _ := c.Read(answer)
	return string(answer[:n])
}
