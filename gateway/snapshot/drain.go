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

// drains are the upstreams that operators have taken out of service, by label, and since when. They are immutable, and at most as
// many as there are upstreams.
type drains map[string]time.Time

// Drained reports whether an operator has taken an upstream out of service. It serves the gets that it began before, and no others.
func (s *Snapshot) Drained(label string) bool {
	_, drained := s.drains[label]
	return drained
}

// SetDrained takes an upstream out of service, or lets it serve again. When it returns, that holds for each request that takes its
// snapshot from then on. Since is when a drained upstream was taken out of service; doing so again changes nothing. The error is
// [ErrUnknownUpstream], [ErrStopped] or the context's.
//
// A drain is of a name: it outlasts a reload, also one that gives the name to another server, but not, without replicas, one that removes the name. The
// end of the process is its end, too. Whatever is to be drained comes in here, whoever decides it: replicas call it for what is done at
// one of them.
func (p *Publisher) SetDrained(ctx context.Context, label string, drained bool) (since time.Time, err error) {
	change := drainChange{label: label, drained: drained, done: make(chan drainResult, 1)}
	select {
	case p.drainChanges <- change:
		result := <-change.done
		return result.since, result.err
	case <-p.stopped:
		return time.Time{}, ErrStopped
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// drainChange is a call of SetDrained; done receives once.
type drainChange struct {
	label   string
	drained bool
	done    chan drainResult
}

type drainResult struct {
	since time.Time
	err   error
}

// setDrained carries out a change in Run's goroutine.
func (b *builder) setDrained(ctx context.Context, change drainChange) {
	current := b.publisher.Current()
	i, known := current.index[change.label]
	if !known {
		change.done <- drainResult{err: ErrUnknownUpstream}
		return
	}
	since, before := b.drains[change.label]
	if change.drained == before {
		change.done <- drainResult{since: since}
		return
	}
	b.drains = maps.Clone(b.drains)
	logger := b.publisher.logger.With(slog.String("upstream", change.label), slog.String("team", current.Upstreams[i].Team))
	if change.drained {
		since = time.Now()
		b.drains[change.label] = since
		logger.InfoContext(ctx, "upstream drained")
	} else {
		since = time.Time{}
		delete(b.drains, change.label)
		logger.InfoContext(ctx, "upstream serves again")
	}
	b.publisher.changed.add(change.label)
	b.publish(ctx, current.Generation)
	change.done <- drainResult{since: since}
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

// shown returns the state of an upstream as a snapshot has it: a drained upstream always reports `draining`.
func (d drains) shown(label string, state *upstream.State) *upstream.State {
	since, drained := d[label]
	if !drained {
		return state
	}
	next := *state
	next.Problem = upstream.Drained(since, state.Problem)
	return &next
}
