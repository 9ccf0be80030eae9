package publish

import (
	"context"
	"slices"
	"time"

	"github.com/promptweir/promptweir/gateway/snapshot"
)

// takeoverBound bounds the time for which a reload waits until a new connector reaches its server,
// so that calls move to it without a gap.
const takeoverBound = 5 * time.Second

// start runs the connectors of a generation that are not running yet. Call it in Run's goroutine.
func (p *Publisher) start(ctx context.Context, g *snapshot.Generation) {
	for _, connector := range g.Connectors {
		if p.stops[connector] != nil {
			continue
		}
		ctx, stop := context.WithCancel(ctx)
		p.stops[connector] = stop
		p.connectors.Go(func() error {
			defer stop()
			return owned(connector).Run(ctx)
		})
	}
}

// owned returns a connector with the methods that only its owner uses. The assertion cannot fail,
// because Options.NewConnector made the connector.
func owned(c snapshot.Connector) Connector {
	return c.(Connector) //nolint:forcetypeassert // NewConnector makes all connectors
}

// awaitTakeover waits until each connector that replaces another one has answered or failed once,
// up to takeoverBound.
func (p *Publisher) awaitTakeover(ctx context.Context, before, next *snapshot.Generation) {
	ctx, cancel := context.WithTimeout(ctx, takeoverBound)
	defer cancel()
	awaited := slices.DeleteFunc(slices.Clone(next.Connectors), func(c snapshot.Connector) bool {
		old := before.Connector(c.Upstream().Name)
		return old == nil || old == c
	})
	isTried := func(c snapshot.Connector) bool { return c.State().Tried }
	for {
		// Read the snapshot before the connectors' states. Each change of a connector makes a new
		// snapshot, so that none is missed.
		s := p.Current()
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

// retire ends the connectors that the next generation does not use, each after its calls. It returns
// at once, with their number. A call that asks its client more than once may be cut off: otherwise a
// server could keep its connector alive forever. Call it in Run's goroutine.
func (p *Publisher) retire(ctx context.Context, before, next *snapshot.Generation) (retired int) {
	for _, connector := range before.Connectors {
		if next.Connector(connector.Upstream().Name) == connector {
			continue
		}
		retired++
		stop := p.stops[connector]
		delete(p.stops, connector)
		p.connectors.Go(func() error {
			defer stop()
			// The timeout of a call is paused while the call asks its client, so add the time for a
			// reply.
			bound, cancel := context.WithTimeout(ctx, connector.Upstream().Timeout+p.replyBound)
			defer cancel()
			owned(connector).Retire(bound)
			return nil
		})
	}
	return retired
}
