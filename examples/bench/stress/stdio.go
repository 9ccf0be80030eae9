package main

import (
	"context"
	"io"
	"os"
	"sync"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/gateway/gatewaytest/history"
)

// stdio is what gateways over stdio are started with, which have one client each. They load what the
// replicas do.
type stdio struct {
	command []string
	path    string

	mu   sync.Mutex // guards gate
	gate int
}

// load has gateways over stdio load a configuration, soon.
func (s *stdio) load(text string, gate int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rig.Check(os.WriteFile(s.path+".next", []byte(text), 0o600))
	rig.Check(os.Rename(s.path+".next", s.path))
	s.gate = gate
}

// open starts a gateway over stdio, which has a number.
func (f *fleet) open(a *history.Audience, at int) func(context.Context) (io.ReadWriteCloser, error) {
	return func(ctx context.Context) (io.ReadWriteCloser, error) {
		sent := time.Now()
		f.stdio.mu.Lock()
		gate := f.stdio.gate
		f.stdio.mu.Unlock()
		a.Note(history.Op{Name: history.Started, At: at}, sent, nil)
		a.Note(history.RulesAt(at, gate), sent, nil)
		return rig.Pipe(ctx, f.stdio.command[0], f.stdio.command[1:]...)
	}
}
