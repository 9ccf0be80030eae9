package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/serving"
	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/admin"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
)

const (
	// settleBound is how long a command waits until each upstream has been listed or has failed.
	settleBound = 30 * time.Second
	// progressAfter is how long it waits before it tells a person for which of them.
	progressAfter = 300 * time.Millisecond
)

// outsideCluster returns a configuration without its cluster block: a command that shows what
// servers say is no replica of those that serve clients, and may end at any moment.
func outsideCluster(cfg *config.Config) *config.Config {
	outside := *cfg
	outside.Cluster = nil
	return &outside
}

// withUpstreams runs a gateway while use runs, after each upstream has been listed or has failed.
func (a *app) withUpstreams(ctx context.Context, cfg *config.Config, use func(*gateway.Gateway) error) error {
	logger, err := a.quietLogger()
	if err != nil {
		return err
	}
	return serving.With(ctx, outsideCluster(cfg), gateway.Options{Logger: logger, Version: buildVersion()}, func(g *gateway.Gateway) error {
		if err := a.settle(ctx, g); err != nil {
			return err
		}
		return use(g)
	})
}

// showProgress waits a moment for the upstreams, and writes a line for each that takes longer.
func showProgress(ctx context.Context, w io.Writer, g *gateway.Gateway) {
	early, cancel := context.WithTimeout(ctx, progressAfter)
	defer cancel()
	g.Settle(early)
	if ctx.Err() == nil {
		printWaiting(w, g.Snapshot())
	}
}

// printWaiting writes a line for each upstream that has not been tried yet.
func printWaiting(w io.Writer, s *snapshot.Snapshot) {
	for i, state := range s.States {
		if u := &s.Upstreams[i]; !state.Tried {
			fmt.Fprintf(w, "promptweir: waiting for %s: %s\n", u.Name,
				terminal.OneLine(u.Address(), terminal.MaxReport))
		}
	}
}

// explained says of an upstream that did not answer what list would say of it. It returns other
// errors as they are.
func explained(s *snapshot.Snapshot, err error) error {
	failed, ok := errors.AsType[*upstream.Unavailable](err)
	if !ok {
		return err
	}
	for _, t := range s.Troubles() {
		if t.Upstream == failed.Upstream {
			return errors.New(terminal.OneLine(t.String(), terminal.MaxReport))
		}
	}
	at := slices.IndexFunc(s.Upstreams, func(u config.Upstream) bool { return u.Name == failed.Upstream })
	if at < 0 {
		return err
	}
	return errors.New(terminal.OneLine(fmt.Sprintf("%s (%s) does not answer: %s", failed.Upstream,
		s.Upstreams[at].Place, failed.Cause()), terminal.MaxReport))
}

// settle waits for the upstreams and prints which of them could not be listed. If none could, that
// is an error.
func (a *app) settle(ctx context.Context, g *gateway.Gateway) error {
	bound, cancel := context.WithTimeout(ctx, settleBound)
	defer cancel()
	if _, isTerminal := terminal.Width(a.raw.err); isTerminal {
		showProgress(bound, a.err, g)
	}
	g.Settle(bound)
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, trouble := range g.Snapshot().Troubles() {
		fmt.Fprintln(a.err, "promptweir:", terminal.OneLine(trouble.String(), terminal.MaxReport))
	}
	upstreams := g.Ready().Upstreams
	if len(upstreams) > 0 && !slices.ContainsFunc(upstreams, func(u admin.UpstreamHealth) bool { return u.Listed }) {
		return errors.New("no upstream could be listed")
	}
	return nil
}
