package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

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
	return sharedWatch{s.store.Join(append(connection, s.version...))}
}

// sharedWatch is one watch. What it says is the same in both packages, neither of which knows the other one.
type sharedWatch struct{ *cluster.Watch }

func (w sharedWatch) Attend(ctx context.Context, mayHold bool) (upstream.Turn, error) {
	turn, err := w.Watch.Attend(ctx, mayHold)
	return upstream.Turn(turn), err
}

func (w sharedWatch) Put(
	ctx context.Context, number uint64, definitions []jsontext.Value, unchanged bool, answers uint64, ttl time.Duration,
) (version uint64, held bool, err error) {
	version, held, err = w.Watch.Put(ctx, number, definitions, unchanged, answers, ttl)
	if errors.Is(err, cluster.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", upstream.ErrNotShareable, err)
	}
	return version, held, err
}

func (w sharedWatch) Take(ctx context.Context, turn upstream.Turn) ([]jsontext.Value, error) {
	return w.Watch.Take(ctx, cluster.Turn(turn))
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
