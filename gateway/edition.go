package gateway

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream"
)

// edition is all that a request needs to know of the upstreams at one moment: the catalog, whose entries carry what the
// policy says of them, and how each upstream is. It is immutable but for its views, which are made when they are first
// asked for.
type edition struct {
	*setup

	snapshot *catalog.Snapshot
	// unlisted reports what of the upstreams' lists was not taken up, or not as they say it.
	unlisted []catalog.Report
	// states are in configuration order, and so are the places in them of those that neither answered nor failed yet, and
	// of these and the degraded ones: a request looks at no more than them, however many there are.
	states             []*upstream.State
	untried, unhealthy []int

	// views are those of the audiences that asked last.
	views *lru.Cache[*policy.Audience, *audienceView]
	// superseded is closed when the next edition has taken this one's place.
	superseded chan struct{}
}

// maxViews bounds the views that an edition keeps: as many as a policy keeps audiences. An audience that is forgotten there
// comes back as another one, so that without a bound there would be no end of views.
const maxViews = 10_000

// audienceView is what one audience sees of an edition, made outside of the edition's lock.
type audienceView struct {
	view func() *catalog.View
	// made is set once somebody asked for the view.
	made atomic.Bool
	// owners are the upstreams of the view's entries, by name.
	owners func() map[string]bool
}

func newAudienceView(view func() *catalog.View) *audienceView {
	v := &audienceView{}
	v.view = sync.OnceValue(func() *catalog.View {
		v.made.Store(true)
		return view()
	})
	v.owners = sync.OnceValue(func() map[string]bool {
		owners := map[string]bool{}
		for _, entry := range v.view().Entries() {
			for _, owner := range entry.Owners {
				owners[owner.Upstream] = true
			}
		}
		return owners
	})
	return v
}

func newEdition(s *setup, snapshot *catalog.Snapshot, states []*upstream.State) *edition {
	views, err := lru.New[*policy.Audience, *audienceView](maxViews)
	if err != nil {
		panic(err) // it refuses sizes below one only
	}
	e := &edition{setup: s, snapshot: snapshot, states: states, views: views, superseded: make(chan struct{})}
	for i, state := range states {
		if !state.Tried {
			e.untried = append(e.untried, i)
		}
		if !state.Tried || state.Problem != nil {
			e.unhealthy = append(e.unhealthy, i)
		}
	}
	return e
}

// next returns the edition that follows. Views that somebody asked for in this one are carried over, at a cost in
// proportion to what changed; those that nobody did are forgotten.
func (e *edition) next(snapshot *catalog.Snapshot, states []*upstream.State) *edition {
	next := newEdition(e.setup, snapshot, states)
	var changes []catalog.Change
	if snapshot != e.snapshot {
		changes = catalog.Diff(e.snapshot, snapshot)
	}
	for _, audience := range e.views.Keys() { // the one that asked last is the last
		before, ok := e.views.Peek(audience)
		switch {
		case !ok: // forgotten meanwhile
		case snapshot == e.snapshot:
			next.views.Add(audience, before)
		case before.made.Load():
			next.views.Add(audience, newAudienceView(func() *catalog.View {
				return before.view().With(snapshot, changes, func(entry *catalog.Entry) bool { return visible(audience, entry) })
			}))
		}
	}
	return next
}

// reports are what somebody should put right.
func (e *edition) reports() []catalog.Report {
	return slices.Concat(e.snapshot.Reports(), e.unlisted)
}

// visible is the one decision for list, get, completion and notification.
func visible(audience *policy.Audience, entry *catalog.Entry) bool {
	visibility, _ := entry.Tag.(*policy.Visibility) // nil shows an entry to nobody
	return audience.Sees(visibility)
}

// entry returns the entry that the audience sees under a name, or nil.
func (e *edition) entry(audience *policy.Audience, name string) *catalog.Entry {
	entry := e.snapshot.Lookup(name)
	if entry == nil || !visible(audience, entry) {
		return nil
	}
	return entry
}

// view returns what the audience sees of the catalog.
func (e *edition) view(audience *policy.Audience) *catalog.View {
	return e.audienceView(audience).view()
}

func (e *edition) audienceView(audience *policy.Audience) *audienceView {
	if v, ok := e.views.Get(audience); ok {
		return v
	}
	fresh := newAudienceView(func() *catalog.View {
		return e.snapshot.View(func(entry *catalog.Entry) bool { return visible(audience, entry) })
	})
	if earlier, ok, _ := e.views.PeekOrAdd(audience, fresh); ok { // somebody else was faster
		return earlier
	}
	return fresh
}

// publishChanges makes a new edition whenever an upstream's state changed, or another setup is there. It is the only
// writer of the edition.
func (g *Gateway) publishChanges(ctx context.Context) error {
	p := publisher{gateway: g, reported: map[string]bool{}}
	p.turnTo(g.setup())
	for {
		var due <-chan time.Time
		if !p.due.IsZero() {
			due = time.After(time.Until(p.due))
		}
		select {
		case <-g.changed:
		case <-due:
		case next := <-g.setups:
			p.replace(ctx, next)
			continue
		case <-ctx.Done():
			return nil
		}
		p.publish(ctx)
	}
}

// publisher remembers what the present edition was made from.
type publisher struct {
	gateway  *Gateway
	reported map[string]bool

	setup *setup
	// By upstream, in the setup's order.
	sources []catalog.Source
	shown   []showing
	taken   []taken

	// due is when an upstream that is down is to be hidden; zero while none is.
	due time.Time
}

// turnTo makes what follows be made from a setup, which may take in what the upstreams list otherwise than the one before.
func (p *publisher) turnTo(next *setup) {
	p.setup = next
	p.sources, p.taken = next.restoredSources()
	p.shown = make([]showing, len(p.sources))
}

// replace swaps in an edition of another setup, and then takes the streams over to it.
func (p *publisher) replace(ctx context.Context, next *setup) {
	g, before := p.gateway, p.setup
	p.turnTo(next)
	states := next.states()
	p.stale(states)
	e := newEdition(next, catalog.Merge(p.sources, next.catalogOptions()), states)
	e.unlisted = next.unlisted(p.taken, states)
	g.replace(e)
	g.moveStreams()
	close(before.replaced)
	p.report(ctx, e.reports())
	g.keep.signal()
}

// showing says which of an upstream's lists is in the catalog.
type showing struct {
	lists  uint64 // the upstream's list count, see [upstream.State]; 0 is the one that was kept on disk
	hidden bool
}

// manyStale is how many lists are taken up one by one; for more, merging everything is cheaper.
const manyStale = 8

// publish takes up all states, swaps the new edition in, and only then wakes who subscribed.
func (p *publisher) publish(ctx context.Context) {
	g := p.gateway
	before, states := g.edition.Load(), p.setup.states()
	snapshot := p.merge(before.snapshot, p.stale(states))
	next := before.next(snapshot, states)
	next.unlisted = p.setup.unlisted(p.taken, states)
	g.replace(next)
	p.report(ctx, next.reports())
	if snapshot != before.snapshot {
		g.wakeChanged()
	}
	g.keep.signal()
}

// stale brings the sources up to date and returns those that changed.
func (p *publisher) stale(states []*upstream.State) (stale []int) {
	now := time.Now()
	p.due = time.Time{}
	for i, state := range states {
		shows := showing{lists: state.Lists}
		if from, ok := hiddenFrom(p.setup.upstreams[i], state); ok {
			shows.hidden = !now.Before(from)
			if !shows.hidden && (p.due.IsZero() || from.Before(p.due)) {
				p.due = from
			}
		}
		if shows == p.shown[i] {
			continue
		}
		p.shown[i] = shows
		switch {
		case shows.hidden:
			p.sources[i].Prompts = nil
		default:
			p.taken[i] = p.setup.intake.take(&p.sources[i], p.setup.definitions(i, state))
			p.sources[i].Prompts = p.taken[i].prompts
		}
		stale = append(stale, i)
	}
	return stale
}

// hiddenFrom returns when the prompts of an upstream that is down are to be hidden; ok is false while they are not to.
func hiddenFrom(u config.Upstream, state *upstream.State) (from time.Time, ok bool) {
	if u.WhenDown != config.WhenDownHide || state.Connected || state.Problem == nil {
		return time.Time{}, false
	}
	return state.Problem.Since.Add(u.Grace), true
}

func (p *publisher) merge(snapshot *catalog.Snapshot, stale []int) *catalog.Snapshot {
	if len(stale) > manyStale {
		return catalog.Merge(p.sources, p.setup.catalogOptions())
	}
	for _, i := range stale {
		snapshot = snapshot.With(p.sources[i])
	}
	return snapshot
}

// replace swaps an edition in and lets those go on who wait for the next one.
func (g *Gateway) replace(next *edition) { close(g.edition.Swap(next).superseded) }

// report logs what is new among the catalog's reports.
func (p *publisher) report(ctx context.Context, reports []catalog.Report) {
	now := make(map[string]bool, len(reports))
	for _, r := range reports {
		now[r.Key()] = true
		if !p.reported[r.Key()] {
			p.gateway.logger.WarnContext(ctx, "catalog", slog.String("kind", string(r.Kind)), slog.String("report", r.Text))
		}
	}
	p.reported = now
}

// settle waits, at most until settleBound after the start, until each upstream that the principal may see anything of
// has once answered or failed. It returns the edition to use, and the principal's audience in it.
func (g *Gateway) settle(ctx context.Context, who policy.Principal) (*edition, *policy.Audience) {
	e, audience := g.present(who)
	if e.tried(audience) {
		return e, audience
	}
	bound := time.NewTimer(time.Until(g.started.Add(settleBound)))
	defer bound.Stop()
	for !e.tried(audience) {
		select {
		case <-e.superseded:
			e, audience = g.present(who)
		case <-bound.C:
			return e, audience
		case <-ctx.Done():
			return e, audience
		}
	}
	return e, audience
}

// present returns the present edition and a principal's audience in it.
func (g *Gateway) present(who policy.Principal) (*edition, *policy.Audience) {
	e := g.edition.Load()
	return e, e.policy.Audience(who)
}

func (e *edition) tried(audience *policy.Audience) bool {
	return !slices.ContainsFunc(e.untried, func(i int) bool { return audience.SeesTeam(e.upstreams[i].Team) })
}
