package gateway

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream"
)

// edition is all that a request needs to know of the upstreams at one moment: the catalog, who may see what of it,
// and how each upstream is. It is immutable but for its views, which are made when they are first asked for.
type edition struct {
	policy   *policy.Policy
	snapshot *catalog.Snapshot
	// grants are those of the snapshot's entries.
	grants map[*catalog.Entry]policy.Grants
	// states are in configuration order.
	states []*upstream.State

	mu    sync.Mutex // guards views
	views map[*policy.Audience]*lazyView
	// superseded is closed when the next edition has taken this one's place.
	superseded chan struct{}
}

// lazyView is a view that is computed once, outside of the edition's lock.
type lazyView struct {
	once sync.Once
	view *catalog.View
	// upstreams are the owners of the view's entries.
	upstreams map[string]bool
}

// newEdition makes an edition of a new catalog. Known are the grants of entries that may be in it.
func newEdition(
	p *policy.Policy, snapshot *catalog.Snapshot, states []*upstream.State, known map[*catalog.Entry]policy.Grants,
) *edition {
	grants := make(map[*catalog.Entry]policy.Grants, len(snapshot.Entries()))
	for _, entry := range snapshot.Entries() {
		g, ok := known[entry]
		if !ok {
			g = p.Grants(entry.Team, entry.Owners[0].Upstream, entry.Name)
		}
		grants[entry] = g
	}
	return &edition{
		policy: p, snapshot: snapshot, grants: grants, states: states,
		views: map[*policy.Audience]*lazyView{}, superseded: make(chan struct{}),
	}
}

// with returns an edition with the same catalog and newer states. Views stay what they are.
func (e *edition) with(states []*upstream.State) *edition {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &edition{
		policy: e.policy, snapshot: e.snapshot, grants: e.grants, states: states,
		views: maps.Clone(e.views), superseded: make(chan struct{}),
	}
}

// entry returns the entry that the audience sees under a name, or nil: the one decision for get and completion.
func (e *edition) entry(audience *policy.Audience, name string) *catalog.Entry {
	entry := e.snapshot.Lookup(name)
	if entry == nil || !audience.Allows(e.grants[entry]) {
		return nil
	}
	return entry
}

// view returns what the audience sees of the catalog: the same decision, for list and notification.
func (e *edition) view(audience *policy.Audience) *catalog.View { return e.lazyView(audience).view }

func (e *edition) lazyView(audience *policy.Audience) *lazyView {
	e.mu.Lock()
	lazy, ok := e.views[audience]
	if !ok {
		lazy = &lazyView{}
		e.views[audience] = lazy
	}
	e.mu.Unlock()
	lazy.once.Do(func() {
		lazy.view = e.snapshot.View(func(entry *catalog.Entry) bool { return audience.Allows(e.grants[entry]) })
		lazy.upstreams = map[string]bool{}
		for _, entry := range lazy.view.Entries() {
			for _, owner := range entry.Owners {
				lazy.upstreams[owner.Upstream] = true
			}
		}
	})
	return lazy
}

// publishChanges makes a new edition whenever an upstream's state changed. It is the only writer of the edition.
func (g *Gateway) publishChanges(ctx context.Context) error {
	p := publisher{gateway: g, sources: g.sources(), lists: make([]uint64, len(g.connectors)), reported: map[string]bool{}}
	for {
		select {
		case <-g.changed:
			p.publish(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// publisher remembers what the present edition was made from.
type publisher struct {
	gateway  *Gateway
	sources  []catalog.Source
	lists    []uint64 // the upstreams' list counts, see [upstream.State]
	reported map[string]bool
}

// publish takes up all states, swaps the new edition in, and only then wakes who subscribed.
func (p *publisher) publish(ctx context.Context) {
	g := p.gateway
	before := g.edition.Load()
	states, snapshot := g.states(), before.snapshot
	for i, state := range states {
		if state.Lists != p.lists[i] {
			p.lists[i] = state.Lists
			p.sources[i].Prompts = p.parse(ctx, i, state)
			snapshot = snapshot.With(p.sources[i])
		}
	}
	if snapshot == before.snapshot {
		g.replace(before.with(states))
		return
	}
	g.replace(newEdition(g.policy, snapshot, states, before.grants))
	p.report(ctx, snapshot.Reports())
	g.wakeChanged()
}

// replace swaps an edition in and lets those go on who wait for the next one.
func (g *Gateway) replace(next *edition) { close(g.edition.Swap(next).superseded) }

// states are how the upstreams are now, in configuration order.
func (g *Gateway) states() []*upstream.State {
	states := make([]*upstream.State, len(g.connectors))
	for i, connector := range g.connectors {
		states[i] = connector.State()
	}
	return states
}

// parse reads one upstream's definitions. What cannot be read is left out and logged.
func (p *publisher) parse(ctx context.Context, source int, state *upstream.State) []catalog.Prompt {
	prompts := make([]catalog.Prompt, 0, len(state.Definitions))
	for _, definition := range state.Definitions {
		prompt, err := catalog.ParsePrompt(definition)
		if err != nil {
			p.gateway.logger.WarnContext(ctx, "prompt left out",
				slog.String("upstream", p.sources[source].Upstream), slog.Any("error", err))
			continue
		}
		prompts = append(prompts, prompt)
	}
	return prompts
}

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

// settle waits, at most until settleBound after the start, until each upstream that the audience may see anything of
// has once answered or failed. It returns the edition to use.
func (g *Gateway) settle(ctx context.Context, audience *policy.Audience) *edition {
	e := g.edition.Load()
	if g.tried(e, audience) {
		return e
	}
	bound := time.NewTimer(time.Until(g.started.Add(settleBound)))
	defer bound.Stop()
	for !g.tried(e, audience) {
		select {
		case <-e.superseded:
			e = g.edition.Load()
		case <-bound.C:
			return e
		case <-ctx.Done():
			return e
		}
	}
	return e
}

func (g *Gateway) tried(e *edition, audience *policy.Audience) bool {
	for i, connector := range g.connectors {
		if !e.states[i].Tried && audience.SeesTeam(connector.Upstream().Team) {
			return false
		}
	}
	return true
}
