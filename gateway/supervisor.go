package gateway

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/gateway/admin"
	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
)

// takeoverBound is how long a reload waits for a connector that replaces another one to reach its
// server, so that calls move from one to the other without a gap.
const takeoverBound = 5 * time.Second

// supervisor starts and stops connectors. Only its own goroutine uses it.
type supervisor struct {
	gateway *Gateway
	group   *errgroup.Group
	// cancels end the connectors' runs.
	cancels map[*upstream.Connector]context.CancelFunc
}

// start runs those of the connectors that do not run yet.
func (s *supervisor) start(ctx context.Context, connectors []*upstream.Connector) {
	for _, connector := range connectors {
		if s.cancels[connector] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		s.cancels[connector] = cancel
		s.group.Go(func() error {
			defer cancel()
			return connector.Run(ctx)
		})
	}
}

// run carries out reloads until ctx ends.
func (s *supervisor) run(ctx context.Context) error {
	for {
		select {
		case done := <-s.gateway.reloads:
			err := s.reload(ctx)
			records{s.gateway.opts.Audit}.reload(err)
			done <- err
		case <-ctx.Done():
			return nil
		}
	}
}

// reload puts what was loaded into use as a whole, or nothing of it. Everything that can fail comes
// first, while the previous generation goes on serving:
//
//	load ▶ generation, with the connectors that stay ▶ start the others ▶ replace ▶ retire what is left over
//	  └───────── errors end here, and nothing has changed ──────────┘
func (s *supervisor) reload(ctx context.Context) error {
	g, before := s.gateway, s.gateway.Snapshot().Generation
	next, state, err := g.load(before)
	if err != nil {
		g.logger.ErrorContext(ctx, "configuration refused, the previous one stays in use", slog.Any("error", err))
		g.loaded.Store(admin.Refused(g.loaded.Load(), time.Now(), err))
		return err
	}
	s.start(ctx, next.Connectors)
	g.awaitTakeover(ctx, before, next)
	// It fails only when the gateway ends, and with it the connectors that were started here.
	if err := g.publisher.Replace(ctx, next); err != nil {
		return snapshot.ErrStopped
	}
	if g.cluster != nil {
		g.cluster.Use(next.Config, next.Sealer)
	}
	g.loaded.Store(state())
	retired := s.retire(ctx, before, next)
	g.logger.InfoContext(ctx, "configuration reloaded", slog.Int("upstreams", len(next.Upstreams)),
		slog.Int("kept", len(before.Connectors)-retired), slog.Int("retired", retired))
	return nil
}

// awaitTakeover waits until each connector that replaces another one has answered or failed once,
// at most for takeoverBound.
func (g *Gateway) awaitTakeover(ctx context.Context, before, next *snapshot.Generation) {
	ctx, cancel := context.WithTimeout(ctx, takeoverBound)
	defer cancel()
	awaited := replacing(before, next)
	isTried := func(c *upstream.Connector) bool { return c.State().Tried }
	for {
		// Before the look at the connectors, so that no change after it is missed.
		s := g.Snapshot() // a connector that changes causes another
		if awaited = slices.DeleteFunc(awaited, isTried); len(awaited) == 0 {
			return
		}
		select {
		case <-s.Superseded():
		case <-ctx.Done():
			return
		}
	}
}

// replacing returns the connectors that replace one of an earlier generation.
func replacing(before, next *snapshot.Generation) (replacing []*upstream.Connector) {
	for _, connector := range next.Connectors {
		if old := before.Connector(connector.Upstream().Name); old != nil && old != connector {
			replacing = append(replacing, connector)
		}
	}
	return replacing
}

// retire ends the connectors that are not in the next generation, once their calls are over. It
// does not wait, and returns how many they are. A call that asks its client more than once may be
// cut off, so that no server keeps a connector for ever.
func (s *supervisor) retire(ctx context.Context, before, next *snapshot.Generation) (retired int) {
	for _, connector := range before.Connectors {
		if next.Connector(connector.Upstream().Name) == connector {
			continue
		}
		retired++
		cancel := s.cancels[connector]
		delete(s.cancels, connector)
		s.group.Go(func() error {
			defer cancel()
			// The timeout of a call does not count while it asks its client.
			bound, stop := context.WithTimeout(ctx, connector.Upstream().Timeout+requests.ReplyBound)
			defer stop()
			connector.Retire(bound)
			return nil
		})
	}
	return retired
}
