package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

const (
	replicas = 3
	// timeout bounds each wait for a program.
	timeout = 10 * time.Second
)

// world is a store and the gateways that share it.
type world struct {
	st       *rig.Stage
	program  string
	client   upstreamtest.Client
	gateways []*rig.Gateway
	store    *store
	// proxies has, for each gateway, its way to the store.
	proxies []*rig.Proxy
}

// awaitStore waits until the last line of each gateway's log about the store says that it is in use.
func (w *world) awaitStore() error {
	return rig.Eventually(2*timeout, func() error {
		for i, g := range w.gateways {
			log := g.Log()
			if strings.LastIndex(log, "store in use") <= strings.LastIndex(log, "store unavailable") {
				return fmt.Errorf("replica %d does not use the store:\n%s", i+1, log)
			}
		}
		return nil
	})
}

// endpoints are those of the gateways.
func (w *world) endpoints() (all []string) {
	for _, g := range w.gateways {
		all = append(all, g.Endpoint)
	}
	return all
}

// store is a valkey-server or redis-server that keeps nothing on disk but what it is told to.
type store struct {
	st                *rig.Stage
	address, cli, dir string
	process           *rig.Process
}

func newStore(st *rig.Stage) *store {
	s := &store{
		st: st, address: rig.FreeAddress(st.Context()), cli: rig.Program("valkey-cli", "redis-cli"), dir: st.Dir(),
	}
	s.start()
	return s
}

// start starts the store, empty and at its address.
func (s *store) start() {
	_ = os.Remove(filepath.Join(s.dir, "dump.rdb")) // there may be none
	s.restore()
}

// restore starts the store with what it has saved.
func (s *store) restore() {
	_, port, _ := net.SplitHostPort(s.address) // it was made of one
	command := append(clocked(s.clock()), rig.Program("valkey-server", "redis-server"), "--port", port, "--bind",
		"127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir)
	s.process = s.st.Start(command[0], command[1:]...)
	rig.Check(rig.Eventually(timeout, func() error { return s.command("PING") }))
}

func (s *store) clock() string { return filepath.Join(s.dir, "clock") }

// setClock sets the store's clock, relative to that of the machine.
func (s *store) setClock(by string) { rig.Check(os.WriteFile(s.clock(), []byte(by), 0o600)) }

// hang has the store keep its connections and answer nothing, until resume is called.
func (s *store) hang() { s.process.Signal(syscall.SIGSTOP) }

func (s *store) resume() { s.process.Signal(syscall.SIGCONT) }

// command has the store carry out commands without spaces in their arguments.
func (s *store) command(all ...string) error {
	ctx, cancel := context.WithTimeout(s.st.Context(), timeout)
	defer cancel()
	for _, text := range all {
		args := append([]string{"-e", "-u", "redis://" + s.address}, strings.Fields(text)...)
		if out, err := exec.CommandContext(ctx, s.cli, args...).CombinedOutput(); err != nil { //nolint:gosec // constants
			return fmt.Errorf("%s: %s, %w", text, out, err)
		}
	}
	return nil
}
