package snapshot

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/promptweir/promptweir/upstream"
)

// ErrUnknownUpstream means that the configuration has no upstream of a name.
var ErrUnknownUpstream = errors.New("the configuration has no such upstream")

// drains are the upstreams that operators have taken out of service, by label, and since when. They
// are immutable, and at most as many as there are upstreams.
type drains map[string]time.Time

// Drained reports whether an operator has taken an upstream out of service. It serves the gets that
// it began before, and no others.
func (s *Snapshot) Drained(label string) bool {
	_, drained := s.drains[label]
	return drained
}

// SetDrained takes an upstream out of service, or lets it serve again. When it returns, that holds
// for each request that takes its snapshot from then on. Since is when a drained upstream was taken
// out of service; doing so again changes nothing. The error is [ErrUnknownUpstream], [ErrStopped]
// or the context's.
//
// A drain is of a name: it outlasts a reload, also one that gives the name to another server, but
// not one that removes the name. The end of the process is its end, too.
func (p *Publisher) SetDrained(ctx context.Context, label string, drained bool) (since time.Time, err error) {
	known := true
	err = p.do(ctx, func(ctx context.Context) { since, known = p.builder.setDrained(ctx, label, drained) })
	if err == nil && !known {
		err = ErrUnknownUpstream
	}
	return since, err
}

// setDrained carries out a change in Run's goroutine.
func (b *builder) setDrained(ctx context.Context, label string, drained bool) (since time.Time, known bool) {
	current := b.publisher.Current()
	i, known := current.index[label]
	if !known {
		return time.Time{}, false
	}
	since, before := b.drains[label]
	if drained == before {
		return since, true
	}
	b.drains = maps.Clone(b.drains)
	logger := b.publisher.logger.With(
		slog.String("upstream", label), slog.String("team", current.Upstreams[i].Team))
	if drained {
		since = time.Now()
		b.drains[label] = since
		logger.InfoContext(ctx, "upstream drained")
	} else {
		since = time.Time{}
		delete(b.drains, label)
		logger.InfoContext(ctx, "upstream serves again")
	}
	b.publisher.changed.add(label)
	b.publish(ctx, current.Generation)
	return since, true
}

// of returns the drains of upstreams that a generation has.
func (d drains) of(g *Generation) drains {
	kept := drains{}
	for label, since := range d {
		if _, known := g.index[label]; known {
			kept[label] = since
		}
	}
	return kept
}

// shown returns the state of an upstream as a snapshot has it: a drained upstream always reports
// `draining`.
func (d drains) shown(label string, state *upstream.State) *upstream.State {
	since, drained := d[label]
	if !drained {
		return state
	}
	next := *state
	next.Problem = upstream.Drained(since, state.Problem)
	return &next
}
