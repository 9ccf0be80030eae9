package main

import (
	"context"
	"errors"
	"fmt"
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

// withGateway runs a gateway without listeners while use runs.
func (a *app) withGateway(
	ctx context.Context, cfg *config.Config, use func(*gateway.Gateway) error,
) error {
	// A command that shows what servers say is no replica of those that serve clients, and may end at
	// any moment.
	outside := *cfg
	outside.Cluster = nil
	options := gateway.Options{Logger: a.quietLogger(), Version: buildVersion()}
	return serving.With(ctx, &outside, options, use)
}

// withUpstreams is withGateway after each upstream has been listed or has failed.
func (a *app) withUpstreams(ctx context.Context, cfg *config.Config, use func(*gateway.Gateway) error) error {
	return a.withGateway(ctx, cfg, func(g *gateway.Gateway) error {
		if err := a.settle(ctx, g); err != nil {
			return err
		}
		if err := a.reportTroubles(g); err != nil {
			return err
		}
		return use(g)
	})
}

// tellLater tells a person at a terminal, after a moment, what the command waits for, unless the
// timer is stopped before.
func (a *app) tellLater(tell func()) *time.Timer {
	return time.AfterFunc(progressAfter, func() {
		if _, isTerminal := terminal.Width(a.raw.err); isTerminal {
			tell()
		}
	})
}

// warnOfWaiting names each upstream that has not been tried yet.
func (a *app) warnOfWaiting(s *snapshot.Snapshot) {
	for i, state := range s.States {
		if u := &s.Upstreams[i]; !state.Tried {
			a.warn("waiting for %s: %s", u.Name, u.Address())
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
			return errors.New(terminal.OneLine(t.String()))
		}
	}
	if i, known := s.Index(failed.Upstream); known {
		return errors.New(terminal.OneLine(fmt.Sprintf("%s (%s) does not answer: %s", failed.Upstream,
			s.Upstreams[i].Place, failed.Cause())))
	}
	return err
}

// settle waits until each upstream has been listed or has failed.
func (a *app) settle(ctx context.Context, g *gateway.Gateway) error {
	bound, cancel := context.WithTimeout(ctx, settleBound)
	defer cancel()
	waiting := a.tellLater(func() { a.warnOfWaiting(g.Snapshot()) })
	g.Settle(bound)
	waiting.Stop()
	// Not the bound's end: an upstream that has not answered by then is reported as trouble.
	return ctx.Err()
}

// reportTroubles prints which upstreams could not be listed. If none could, that is an error.
func (a *app) reportTroubles(g *gateway.Gateway) error {
	for _, trouble := range g.Snapshot().Troubles() {
		a.warn("%s", trouble)
	}
	upstreams := g.Ready().Upstreams
	if len(upstreams) > 0 && !slices.ContainsFunc(upstreams, func(u admin.UpstreamHealth) bool { return u.Listed }) {
		return errors.New("no upstream could be listed")
	}
	return nil
}
