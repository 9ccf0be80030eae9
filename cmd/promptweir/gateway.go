package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/serving"
	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
)

const (
	// listedBound bounds the wait of a command for the first list of each upstream.
	listedBound = 30 * time.Second
	// progressAfter is the time after which a command names the servers that it waits for.
	progressAfter = 300 * time.Millisecond
)

// withGateway runs a gateway without listeners and without a cluster while use runs.
func (a *app) withGateway(
	ctx context.Context, cfg *config.Config, use func(*gateway.Gateway) error,
) error {
	// The gateway of a command is no replica: it ends with the command.
	alone := *cfg
	alone.Cluster = nil
	options := gateway.Options{Logger: a.quietLogger(), Version: buildVersion()}
	return serving.With(ctx, &alone, options, use)
}

// withUpstreams is like withGateway, but first waits until each upstream has been tried, and
// reports problems.
func (a *app) withUpstreams(ctx context.Context, cfg *config.Config, use func(*gateway.Gateway) error) error {
	return a.withGateway(ctx, cfg, func(g *gateway.Gateway) error {
		if err := a.awaitTried(ctx, g); err != nil {
			return err
		}
		if err := a.reportTroubles(g); err != nil {
			return err
		}
		return use(g)
	})
}

// tellLater calls tell after progressAfter if standard error is a terminal, unless the timer is stopped.
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

// explained replaces the error of an unavailable upstream by the text that list would print, and returns
// other errors unchanged.
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

// awaitTried waits until each upstream has been listed or has failed, but no longer than listedBound. It
// returns an error only if ctx has ended.
func (a *app) awaitTried(ctx context.Context, g *gateway.Gateway) error {
	bound, cancel := context.WithTimeout(ctx, listedBound)
	defer cancel()
	waiting := a.tellLater(func() { a.warnOfWaiting(g.Snapshot()) })
	g.Settle(bound)
	waiting.Stop()
	// If only the bound has passed, return nil: reports name the upstreams without a list.
	return ctx.Err()
}

// reportTroubles prints the problems of upstreams. If there are upstreams and none could be listed, it
// returns an error.
func (a *app) reportTroubles(g *gateway.Gateway) error {
	s := g.Snapshot()
	for _, trouble := range s.Troubles() {
		a.warn("%s", trouble)
	}
	if len(s.Upstreams) > 0 && len(s.Unlisted()) == len(s.Upstreams) {
		return errors.New("no upstream could be listed")
	}
	return nil
}
