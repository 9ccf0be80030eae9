package publish

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
)

// builder makes each snapshot from the previous one, and puts it into use. After the start,
// only the goroutine of publishChanges uses the builder.
type builder struct {
	publisher *Publisher
	// slots are the upstreams' parts of the current snapshot, in the order of its upstreams.
	slots    []upstreamSlot
	reported map[string]bool
	// due is the next time at which a down upstream is to be hidden, or a list may be admitted. It is
	// zero if neither is pending.
	due time.Time
	// admissions counts the goroutines that admit lists.
	admissions sync.WaitGroup
}

// manyStale is the maximum number of stale lists that are merged one by one. For more, a full merge
// is cheaper.
const manyStale = 8

// publish makes the next snapshot and puts it into use. It begins to admit new lists, builds the
// snapshot from the admitted ones, and queues the notifications.
func (b *builder) publish(ctx context.Context, g *snapshot.Generation) {
	before := b.publisher.Current()
	isReload := g != before.Generation
	stale, listsDiffer := b.admit(ctx, g)
	contents := contentsOf(b.slots)
	contents.Catalog, contents.Rejected = b.merge(before, g, stale), before.Rejected
	rejectionsDiffer := isReload || listsDiffer || !sameRejections(before, &contents)
	if rejectionsDiffer {
		contents.Rejected = rejections(g, &contents, b.slots)
	}
	next := before.Successor(g, contents)
	b.publisher.Source.Swap(next)

	if next.Catalog != before.Catalog {
		b.publisher.announcements.add(next)
	}
	if isReload || listsDiffer {
		signal(b.publisher.stateDir.changed)
	}
	if rejectionsDiffer || next.Catalog != before.Catalog {
		b.report(ctx, next.Reports())
	}
}

// admit moves each upstream to its current state, and begins to admit its new list, which follows
// in a later snapshot. It returns the indexes of the upstreams whose part of the catalog changed,
// and whether an admitted list changed.
func (b *builder) admit(ctx context.Context, g *snapshot.Generation) (stale []int, listsDiffer bool) {
	b.due = time.Time{}
	for i := range b.slots {
		u, state := &b.slots[i], stateOf(g, i)
		previous := u.list
		u.receive()
		if definitions, known := g.LatestList(i, state); !known || u.list.admits(definitions) {
			u.state = state
		} else if u.state = withListOf(u.state, state); u.running == nil && !b.wait(u.rested) {
			u.running = b.begin(ctx, g, i, state, definitions)
		}
		hide, ok := hideAt(&g.Upstreams[i], u.state)
		u.hidden = ok && !b.wait(hide)
		if u.visible() != u.merged {
			stale = append(stale, i)
		}
		listsDiffer = listsDiffer || u.list != previous
	}
	return stale, listsDiffer
}

// admissionRest is the rest after an admission, in multiples of its duration. Thus an upstream
// whose list changes all the time takes at most a seventeenth of one processor.
const admissionRest = 16

// begin admits the list of the upstream at index i in a goroutine, and then makes Run publish
// again.
func (b *builder) begin(
	ctx context.Context, g *snapshot.Generation, i int, state *upstream.State, definitions []jsontext.Value,
) *running {
	rules, source, earlier := b.publisher.admission(g), &g.Sources[i], b.slots[i].list
	ctx, stop := context.WithCancel(ctx)
	r := &running{state: state, stop: stop, done: make(chan *admitted, 1)}
	b.admissions.Go(func() {
		defer stop()
		began := time.Now()
		list, err := rules.admit(ctx, source, definitions, earlier)
		if err != nil { // the admission was canceled, and nothing waits for its list
			return
		}
		took := time.Since(began)
		if took > admissionBound {
			b.publisher.logger.WarnContext(ctx, "admission of a list takes long",
				slog.String("upstream", source.Upstream), slog.Duration("took", took))
		}
		r.rested = time.Now().Add(admissionRest * took)
		r.done <- list
		signal(b.publisher.changed) // signal last: receive does not wait for the list
	})
	return r
}

// wait reports whether due is in the future. If so, it makes Run publish again at that time.
func (b *builder) wait(due time.Time) bool {
	if !time.Now().Before(due) {
		return false
	}
	if b.due.IsZero() || due.Before(b.due) {
		b.due = due
	}
	return true
}

// merge returns the catalog of the visible lists. stale are the indexes of the upstreams whose list
// differs from the list in the previous catalog.
func (b *builder) merge(before *snapshot.Snapshot, g *snapshot.Generation, stale []int) *catalog.Catalog {
	if len(stale) > manyStale || g != before.Generation {
		return catalog.Merge(contributions(g.Sources, b.slots), catalogOptions(g))
	}
	merged := before.Catalog
	for _, i := range stale {
		merged = merged.With(g.Sources[i].Upstream, b.slots[i].contribute())
	}
	return merged
}

// report logs the new reports, except reports about broken files, because upstreams with files log them.
func (b *builder) report(ctx context.Context, reports []catalog.Report) {
	now := make(map[string]bool, len(reports))
	for _, r := range catalog.Summarized(reports) {
		now[r.Key()] = true
		if !b.reported[r.Key()] && r.Kind != catalog.BrokenFile {
			b.publisher.reportLogger.WarnContext(ctx, "catalog",
				slog.String("kind", string(r.Kind)), slog.String("upstream", r.Upstream()), slog.String("report", r.Text))
		}
	}
	b.reported = now
}
