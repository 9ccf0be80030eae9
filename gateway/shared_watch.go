package gateway

import (
	"context"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/cluster"
	"github.com/promptweir/promptweir/upstream"
)

// shareWatch makes a connector watch its server together with the other replicas, unless the configuration or this gateway does without.
func (g *Gateway) shareWatch(c *upstream.Connector, cfg *config.Cluster) {
	if cfg.SharedWatch && !g.opts.WatchesAlone {
		c.ShareWatch(sharedWatches{g.cluster, g.opts.Version})
	}
}

// sharedWatches are the watches of the store, as connectors know them. Replicas of different versions do not share: a server is told the
// version, and what one version accepts as a list another one may not.
type sharedWatches struct {
	store   *cluster.Store
	version string
}

func (s sharedWatches) Join(connection []byte) upstream.SharedWatch {
	return s.store.Join(append(connection, s.version...))
}

// runCluster runs this replica's side of the store until end is called, which waits for its end. Its context does not end before.
func (g *Gateway) runCluster(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = g.cluster.Run(ctx) // it returns none
	}()
	return func() {
		cancel()
		<-ended
	}
}
