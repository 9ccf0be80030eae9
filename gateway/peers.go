package gateway

import (
	"context"
	"time"

	"github.com/promptweir/promptweir/gateway/cluster"
)

// drainTimeout bounds how long a drain that another replica knows of may take.
const drainTimeout = 10 * time.Second

// peersOptions are what the gateway does with what its peer replicas know.
func (g *Gateway) peersOptions() cluster.Options {
	return cluster.Options{
		Notify:  func(v cluster.Verdict) { g.publisher.Announce(v.Announce, v.Again, v.Since) },
		Drain:   g.drainAsElsewhere,
		IsReady: func() bool { return g.ready.Load() || g.IsReady() },
		IsAlone: g.opts.IsAlone,
	}
}

// tellServed is [snapshot.Options.Served].
func (g *Gateway) tellServed(number uint64, lists map[string]string, later bool) {
	g.cluster.Peers.Changed(number, lists, later)
}

// drainEverywhere takes an upstream out of service, or lets it serve again, at this replica and all
// others, see [snapshot.Publisher.SetDrained].
func (g *Gateway) drainEverywhere(ctx context.Context, label string, drained bool) (since time.Time, err error) {
	if g.cluster != nil { // between the two, another replica's would undo it here alone
		g.draining.Lock()
		defer g.draining.Unlock()
	}
	since, err = g.publisher.SetDrained(ctx, label, drained)
	if err == nil && g.cluster != nil {
		g.cluster.Peers.Drained(label, drained)
	}
	return since, err
}

// drainAsElsewhere does what operators have done to upstreams at another replica. An upstream that
// the configuration here does not have may come with its next one: a reload does it again.
func (g *Gateway) drainAsElsewhere(drains map[string]cluster.Drain) {
	go func() { // it waits for the publisher, which tells the peers what it serves
		g.draining.Lock() // the last to come does what was done last
		defer g.draining.Unlock()
		for label := range drains {
			ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
			last := g.cluster.Peers.Drains()[label]
			_, _ = g.publisher.SetDrained(ctx, label, last.Drained) // or the name is unknown
			cancel()
		}
	}()
}
