package snapshot

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream"
)

// builder makes each snapshot from the one before, and puts it into use. All of it belongs to the
// goroutine of [Publisher.Run].
type builder struct {
	publisher *Publisher
	// published are the upstreams' lists as they are in the current snapshot, in its order.
	published []published
	reported  map[string]bool
	// due is when upstreams that are down are due to be hidden, or lists to be admitted.
	due appointments
	// inlineBound is the constant, unless a test has another one.
	inlineBound time.Duration
	// admissions are the goroutines that admit lists.
	admissions sync.WaitGroup
}

// replace puts another generation into use.
func (b *builder) replace(ctx context.Context, r replacement) {
	before := b.publisher.Current().Generation
	b.carryOver(before, r)
	b.publish(ctx, r.next)
	// After the swap: whoever is woken takes the next snapshot's generation.
	close(before.replaced)
}

// carryOver keeps the lists that the next generation admits alike, with their admissions that are
// under way, at their upstream's new index. It ends all other admissions, and no list that other
// rules admitted stays.
func (b *builder) carryOver(before *Generation, r replacement) {
	carried, indexes := make([]published, len(r.next.Upstreams)), before.index
	for i := range carried {
		if at := r.kept[i]; at >= 0 {
			// Its admission goes on, so that the loop below must not cancel it.
			carried[i], b.published[at].running = b.published[at], nil
		} else if at, known := indexes[r.next.Upstreams[i].Name]; known {
			was := &b.published[at]
			carried[i] = published{
				list: r.lists[i], earlier: cmp.Or(was.list, was.earlier), tried: was.tried, merged: was.merged,
			}
			if list := r.lists[i]; list != nil {
				carried[i].files = list.offer.files
			}
		}
	}
	for i := range b.published {
		b.published[i].running.cancel()
	}
	b.published = carried
}

// manyStale is the number of stale lists up to which each is merged by itself; for more, a full
// merge is cheaper.
const manyStale = 8

// publish makes a snapshot of the current states, swaps it in, and only then has subscriptions
// woken. While the generation stays, it looks only at upstreams that have changed.
func (b *builder) publish(ctx context.Context, g *Generation) {
	before := b.publisher.Current()
	next := successor(before, g)
	touched := b.touched(before.Generation, g)
	stale := b.update(ctx, next, touched)
	switch {
	case g != before.Generation && !g.mergesLike(before.Generation), len(stale) > manyStale:
		next.Catalog = catalog.Merge(contributions(g.sources, b.published), g.catalogOptions())
	default:
		for _, i := range stale {
			next.Catalog = next.Catalog.With(b.published[i].contribution(g.sources[i]))
		}
	}
	next.complete(before, touched)
	next.published = time.Now()
	// After the swap, for those who wait for it and then read the current one.
	close(b.publisher.current.Swap(next).superseded)
	if next.Catalog != before.Catalog || g != before.Generation {
		b.publisher.announcements.add(next)
	}
	isOther := func(i int) bool { return next.lists[i] != before.lists[i] }
	if g != before.Generation || slices.ContainsFunc(touched, isOther) {
		signal(b.publisher.stateDir.changed)
	}
	if next.Catalog != before.Catalog || !sameRejections(next, before, touched) {
		b.report(ctx, next.Reports())
	}
}

// touched returns the indexes of the upstreams that may have changed since the last snapshot, in
// order: of another generation, all.
func (b *builder) touched(before, g *Generation) []int {
	labels, touched := b.publisher.changed.drain(), b.due.pop(time.Now())
	if g != before {
		b.due = appointments{}
		return g.all()
	}
	for label := range labels {
		if i, ok := g.index[label]; ok { // else it is the label of a connector that a reload starts or ends
			touched = append(touched, i)
		}
	}
	slices.Sort(touched)
	return slices.Compact(touched)
}

// update puts what upstreams offer into the next snapshot, as far as it is admitted. It returns the
// indexes of those whose part in the catalog changed. It admits lists for inlineBound at most, all
// together; others follow in a later snapshot.
func (b *builder) update(ctx context.Context, next *Snapshot, touched []int) (stale []int) {
	now, g := time.Now(), next.Generation
	inline, cancel := context.WithTimeout(ctx, b.inlineBound)
	defer cancel()
	for _, i := range touched {
		state, u := g.state(i), &b.published[i]
		// Times are made anew below, where they still hold.
		b.due.cancel(i)
		// Before anything is decided about the upstream: a list that has been admitted may be what
		// is offered.
		u.receive()
		offered, known := g.offer(i, state)
		if due := u.pace.due(); known && !u.list.admits(offered) && !u.failed.about(offered) && u.running == nil && !b.wait(i, now, due) {
			b.admit(ctx, inline, g, i, offered)
		}
		if u.running != nil {
			b.wait(i, now, u.running.began.Add(admissionBound)) // see [Generation.shown]
		}
		shown := g.shown(i, u, state)
		hide, ok := hideAt(&g.Upstreams[i], shown)
		u.hidden = ok && !b.wait(i, now, hide)
		if u.visible() != u.merged {
			stale = append(stale, i)
		}
		next.States[i], next.lists[i] = shown, u.list
	}
	return stale
}

// wait reports whether a time is still to come, and has Run look at the upstream at index i again
// then.
func (b *builder) wait(i int, now, due time.Time) bool {
	if !now.Before(due) {
		return false
	}
	b.due.make(i, due)
	return true
}

// admit admits a list of the upstream at index i, here or, where that takes longer than the context
// of inline lasts, beside Run, which looks at the upstream again when it is done.
func (b *builder) admit(ctx, inline context.Context, g *Generation, i int, offered offer) {
	u, began := &b.published[i], time.Now()
	earlier := cmp.Or(u.list, u.earlier)
	list, err := g.admission.admitOffer(inline, &g.sources[i], offered, earlier)
	// An error while there was time is a panic's, and would come again.
	if err == nil || inline.Err() == nil {
		u.admitted(result{offered, list, err, time.Now()}, began)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{began: began, stop: cancel, done: make(chan result, 1)}
	u.running = r
	b.admissions.Go(func() {
		defer cancel()
		list, err := g.admission.admitOffer(ctx, &g.sources[i], offered, earlier)
		// Nobody waits for it, and a list that was cut short is none.
		if ctx.Err() != nil {
			return
		}
		ended := time.Now()
		if took := ended.Sub(r.began); took > admissionBound {
			b.publisher.logger.WarnContext(ctx, "admission of a list takes long",
				slog.String("upstream", g.Upstreams[i].Name), slog.Duration("took", took))
		}
		r.done <- result{offered, list, err, ended}
		// After the result is there, which receive does not wait for.
		b.publisher.changed.add(g.Upstreams[i].Name)
	})
}

// running is an admission under way. The nil one is none.
type running struct {
	began time.Time
	stop  context.CancelFunc
	done  chan result // receives once, unless the admission is canceled
}

// result is what an admission made of an offer, or why it made nothing of it, and when it ended.
type result struct {
	offer offer
	list  *admitted
	err   error
	ended time.Time
}

func (r *running) cancel() {
	if r != nil {
		r.stop()
	}
}

// hideAt returns when the prompts of an upstream that is down are to be hidden; ok is false where
// they are not to be: a server that refuses the gateway is up.
func hideAt(u *config.Upstream, state *upstream.State) (at time.Time, ok bool) {
	problem := state.Problem
	if u.WhenDown != config.WhenDownHide || state.Connected || problem == nil || problem.IsRefusal() {
		return time.Time{}, false
	}
	return problem.Since.Add(u.Grace), true
}

// report logs the reports that are new, apart from those of files: their upstreams log them.
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

// changes are the upstreams, by label, whose part of the current snapshot may not be up to date.
// [newChanges] makes them.
type changes struct {
	// wake holds at most one mark: there are some.
	wake chan struct{}

	mu     sync.Mutex // guards labels
	labels map[string]bool
}

func newChanges() *changes { return &changes{wake: make(chan struct{}, 1), labels: map[string]bool{}} }

// add adds an upstream. It never blocks.
func (c *changes) add(label string) {
	c.mu.Lock()
	c.labels[label] = true
	c.mu.Unlock()
	signal(c.wake)
}

// drain returns the upstreams that were added since the last time.
func (c *changes) drain() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.labels
	c.labels = map[string]bool{}
	return taken
}

// appointments are times at which upstreams, by index, have to be looked at although nothing about
// them changes. The zero value has none.
type appointments struct {
	at map[int]time.Time
	// next is no later than the earliest of them; zero if there are none.
	next time.Time
}

// make adds a time for an upstream, of which the earliest counts.
func (a *appointments) make(i int, at time.Time) {
	if before, ok := a.at[i]; ok && before.Before(at) {
		return
	}
	if a.at == nil {
		a.at = map[int]time.Time{}
	}
	a.at[i] = at
	if a.next.IsZero() || at.Before(a.next) {
		a.next = at
	}
}

// cancel removes the time of an upstream.
func (a *appointments) cancel(i int) { delete(a.at, i) }

// pop removes the times that have come, and returns whose they are.
func (a *appointments) pop(now time.Time) (due []int) {
	if a.next.IsZero() || now.Before(a.next) {
		return nil
	}
	a.next = time.Time{}
	for i, at := range maps.Clone(a.at) {
		switch {
		case !now.Before(at):
			due = append(due, i)
			delete(a.at, i)
		case a.next.IsZero() || at.Before(a.next):
			a.next = at
		}
	}
	return due
}
