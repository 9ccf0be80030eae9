package gateway

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream"
)

// setup is all that follows from one configuration. It is immutable: a reload makes another, into which it takes over
// what goes on unchanged.
type setup struct {
	cfg *config.Config
	// upstreams are in configuration order, and so are their connectors. A connector may have been made for an earlier
	// configuration, in which the same server stood in another place.
	upstreams  []config.Upstream
	connectors []*upstream.Connector
	byName     map[string]*upstream.Connector
	// restored are lists that were kept from before the connector was made, by upstream; nil where there is none.
	restored map[string][]jsontext.Value
	// partial are the upstreams of which lists from another time do not say all.
	partial map[string]bool

	intake     *intake
	policy     *policy.Policy
	teamLimits map[string]*config.Limit
	identity   *identity.Authenticator
	sealer     *seal.Sealer
	asking     *seal.Box // of requestState
	hosts      hostGuard
	adminHosts hostGuard

	// replaced is closed when another setup has taken this one's place.
	replaced chan struct{}
}

// newSetup makes the setup of a configuration, which starts and contacts nothing. Before is the one whose place it is to
// take, nil for the first.
func (g *Gateway) newSetup(cfg *config.Config, before *setup) (*setup, error) {
	sealer, err := newSealer(cfg, before)
	if err != nil {
		return nil, fmt.Errorf("cursor_keys: %w", err)
	}
	s := &setup{
		cfg: cfg, upstreams: cfg.Upstreams(),
		byName: map[string]*upstream.Connector{}, restored: map[string][]jsontext.Value{}, partial: map[string]bool{},
		intake: newIntake(cfg), policy: policy.New(cfg).ReportFailures(g.reportCondition), teamLimits: map[string]*config.Limit{},
		identity: identity.New(cfg, g.opts.Logger), sealer: sealer, asking: sealer.For(statePurpose),
		hosts:      newHostGuard(cfg.Gateway.Listen, cfg.Gateway.PublicURL, cfg.Gateway.AllowedHosts, cfg.Gateway.AllowedOrigins),
		adminHosts: newHostGuard(cfg.Admin.Listen, "", cfg.Gateway.AllowedHosts, nil),
		replaced:   make(chan struct{}),
	}
	if before != nil {
		s.identity.InheritKeys(before.identity)
	}
	for _, u := range s.upstreams {
		connector, definitions := g.connector(u, before)
		s.connectors = append(s.connectors, connector)
		s.byName[u.Name] = connector
		if list, ok := g.opts.Lists.of(u); ok && list.Partial {
			s.partial[u.Name] = true
		}
		if definitions != nil {
			s.restored[u.Name] = definitions
		}
	}
	for i := range cfg.Teams {
		s.teamLimits[cfg.Teams[i].Name] = cfg.Teams[i].Limit
	}
	return s, nil
}

// newSealer returns the sealer of a configuration. Where the keys stay, so does it: without configured keys its own are
// not to be had again.
func newSealer(cfg *config.Config, before *setup) (*seal.Sealer, error) {
	if before != nil && slices.Equal(before.cfg.Gateway.CursorKeys, cfg.Gateway.CursorKeys) {
		return before.sealer, nil
	}
	keys := make([][32]byte, 0, len(cfg.Gateway.CursorKeys))
	for _, key := range cfg.Gateway.CursorKeys {
		keys = append(keys, key.Reveal())
	}
	return seal.New(keys)
}

// connector returns what keeps an upstream connected, and the list that stands in for its own until that is there: the
// connector before, where it would be the same, else a new one, with the last list of the same server.
func (g *Gateway) connector(u config.Upstream, before *setup) (*upstream.Connector, []jsontext.Value) {
	var old *upstream.Connector
	if before != nil {
		old = before.byName[u.Name]
	}
	if old != nil && old.Upstream().SameConnection(u) {
		return old, before.restored[u.Name]
	}
	fresh := upstream.New(u, upstream.Options{
		Logger: g.opts.Logger, Name: Name, Version: g.opts.Version, DialGuard: g.own.forbids,
	}, g.signal)
	if old == nil || source(old.Upstream()) != source(u) {
		return fresh, g.restore(u)
	}
	if state := old.State(); state.Listed {
		return fresh, notNil(state.Definitions)
	}
	return fresh, before.restored[u.Name]
}

// restore returns the list of an upstream from another time, nil where there is none.
func (g *Gateway) restore(u config.Upstream) []jsontext.Value {
	list, ok := g.opts.Lists.of(u)
	if !ok {
		return g.keep.restore(u)
	}
	return notNil(list.Definitions)
}

func (s *setup) catalogOptions() catalog.Options {
	return catalog.Options{
		Separator: s.cfg.Gateway.Separator, Conflict: string(s.cfg.Gateway.Conflict),
		Tag: func(e *catalog.Entry) any { return s.policy.Visibility(e.Team, e.Owners[0].Upstream, e.Name, e.JSON) },
	}
}

// reportCondition logs a when that could not be evaluated.
func (g *Gateway) reportCondition(f policy.Failure) {
	g.logger.Warn("when cannot be evaluated: it hides, or does not expose", slog.String("rule", f.Rule),
		slog.String("prompt", f.Prompt), slog.Any("error", f.Err))
}

// sources are the upstreams as the catalog knows them before any of them was listed.
func (s *setup) sources() []catalog.Source { return sourcesOf(s.cfg) }

func sourcesOf(cfg *config.Config) []catalog.Source {
	var sources []catalog.Source
	for _, u := range cfg.Upstreams() {
		sources = append(sources, catalog.Source{Upstream: u.Name, Team: u.Team, Prefix: u.Prefix, Place: u.Place.String()})
	}
	return sources
}

// definitions are what an upstream lists, or listed before its connector was made; nil where that is not known.
func (s *setup) definitions(i int, state *upstream.State) []jsontext.Value {
	if state.Lists == 0 {
		return s.restored[s.upstreams[i].Name]
	}
	return state.Definitions
}

// restoredSources are the sources with the lists that were kept, and what was made of each.
func (s *setup) restoredSources() (sources []catalog.Source, all []taken) {
	sources = s.sources()
	all = make([]taken, len(sources))
	for i := range sources {
		all[i] = s.intake.take(&sources[i], s.restored[sources[i].Upstream])
		sources[i].Prompts = all[i].prompts
	}
	return sources, all
}

// unlisted are the reports about what is not in the catalog, or not as its upstream says it.
func (s *setup) unlisted(all []taken, states []*upstream.State) (reports []catalog.Report) {
	by, listed := map[string]taken{}, map[string]bool{}
	for i, u := range s.upstreams {
		reports = append(reports, all[i].reports...)
		by[u.Name], listed[u.Name] = all[i], s.whole(i, states[i])
	}
	return append(reports, s.intake.unmatched(by, func(u string) bool { return listed[u] })...)
}

// states are how the upstreams are now, in configuration order.
func (s *setup) states() []*upstream.State {
	states := make([]*upstream.State, len(s.connectors))
	for i, connector := range s.connectors {
		states[i] = connector.State()
	}
	return states
}

// listed reports whether an upstream was ever listed: by its connector, by one before it or, with a state_dir, by
// another process.
func (s *setup) listed(i int, state *upstream.State) bool {
	return state.Listed || s.restored[s.upstreams[i].Name] != nil
}

// whole reports whether all that a listed upstream offers is known.
func (s *setup) whole(i int, state *upstream.State) bool {
	return state.Listed || s.listed(i, state) && !s.partial[s.upstreams[i].Name]
}
