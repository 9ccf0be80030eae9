package snapshot

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/assertion"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/origin"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/screen"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/files"
)

// requestStates is the purpose that keeps a sealed requestState from passing as any other token.
const requestStates = "request state"

// hashedArguments is the purpose of the keyed hashes of arguments.
const hashedArguments = "audit arguments"

// Generation is everything that follows from one configuration. It is immutable. A reload makes
// another one, which shares with it whatever the new configuration leaves unchanged.
type Generation struct {
	Config *config.Config
	// Upstreams are in configuration order.
	Upstreams []config.Upstream
	// Connectors are those of the upstreams, in the same order; empty where nothing is ever
	// contacted. A connector may have been made for an earlier configuration in which the same
	// server stood in another place.
	Connectors []*upstream.Connector

	Policy   *policy.Policy
	Identity *identity.Authenticator
	Sealer   *seal.Sealer
	// Assertions tell servers who calls.
	Assertions *assertion.Signer
	// RequestStates seals the requestState of gets that ask their client for input.
	RequestStates *seal.Box
	// ArgumentHashes hashes the arguments that the audit log has.
	ArgumentHashes *seal.MAC
	// Origins checks requests to the MCP endpoint, AdminOrigins those to the admin listener.
	Origins, AdminOrigins origin.Check

	// Skills is set if any upstream's skills are served, and Links if the links in any upstream's
	// results can be read.
	Skills, Links bool

	admission  *admission
	sources    []catalog.Source // without prompts
	index      map[string]int   // of each upstream, by its label
	teamLimits map[string]*config.Limit
	// saved are the lists that stand in for upstreams which their connectors have not listed yet,
	// by label.
	saved Lists
	// files are the lists of upstreams without a server, by label, where nothing runs.
	files map[string]*files.List
	// fileProblems are those of the files of upstreams without a server, by label, where nothing
	// runs.
	fileProblems map[string][]files.Problem
	// replaced is closed when another generation has taken this one's place.
	replaced chan struct{}
}

// newGeneration returns the generation of a configuration without connectors and saved lists. It
// shares with before, which may be nil, what both configurations have in common.
func newGeneration(cfg *config.Config, before *Generation, logger *slog.Logger) (*Generation, error) {
	sealer, err := newSealer(cfg, before)
	if err != nil {
		return nil, fmt.Errorf("cursor_keys: %w", err)
	}
	assertions, err := assertion.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("signing_keys: %w", err)
	}
	g := &Generation{
		Config: cfg, Upstreams: cfg.Upstreams(),
		Policy: newPolicy(cfg, before, logger), Identity: identity.New(cfg, logger),
		Assertions: assertions, Sealer: sealer, RequestStates: sealer.For(requestStates), ArgumentHashes: sealer.MAC(hashedArguments),
		Origins:      origin.New(cfg.Gateway.Listen, cfg.Gateway.PublicURL, cfg.Gateway.AllowedHosts, cfg.Gateway.AllowedOrigins),
		AdminOrigins: origin.New(cfg.Admin.Listen, "", cfg.Gateway.AllowedHosts, nil),
		sources:      sourcesOf(cfg), index: map[string]int{},
		Skills:     cfg.HasSkills(),
		Links:      slices.ContainsFunc(cfg.Upstreams(), func(u config.Upstream) bool { return u.Resources == config.ResourcesLinked }),
		teamLimits: map[string]*config.Limit{},
		saved:      Lists{}, files: map[string]*files.List{}, fileProblems: map[string][]files.Problem{}, replaced: make(chan struct{}),
	}
	for i := range g.Upstreams {
		g.index[g.Upstreams[i].Name] = i
	}
	if before == nil {
		g.admission = newAdmission(cfg, nil, logger)
	} else {
		g.admission = newAdmission(cfg, before.admission, logger)
		// A reload must not refuse tokens because an issuer is out of reach at that moment.
		g.Identity.InheritKeys(before.Identity)
	}
	for i := range cfg.Teams {
		g.teamLimits[cfg.Teams[i].Name] = cfg.Teams[i].Limit
	}
	return g, nil
}

// newSealer keeps the sealer for as long as the keys stay: without configured keys, its random key
// cannot be made again.
func newSealer(cfg *config.Config, before *Generation) (*seal.Sealer, error) {
	if before != nil && slices.Equal(before.Config.Gateway.CursorKeys, cfg.Gateway.CursorKeys) {
		return before.Sealer, nil
	}
	keys := make([][32]byte, 0, len(cfg.Gateway.CursorKeys))
	for _, key := range cfg.Gateway.CursorKeys {
		keys = append(keys, key.Reveal())
	}
	return seal.New(keys)
}

// newPolicy keeps the policy for as long as no rule changes, because entries, audiences and views
// depend on it.
func newPolicy(cfg *config.Config, before *Generation, logger *slog.Logger) *policy.Policy {
	if before != nil && samePolicy(before.Config, cfg) {
		return before.Policy
	}
	return policy.New(cfg).ReportFailures(func(f policy.Failure) {
		if errors.Is(f.Err, policy.ErrBudget) {
			logger.Warn("conditions take too long: requests fail", slog.String("rule", f.Rule))
			return
		}
		logger.Warn("condition failed: hide hides, expose does not expose", slog.String("rule", f.Rule),
			slog.String("prompt", f.Prompt), slog.Any("error", f.Err))
	})
}

// samePolicy reports whether a policy made from either configuration decides the same and names the
// same places.
func samePolicy(a, b *config.Config) bool {
	return (a.Auth == nil) == (b.Auth == nil) && sameRules(a.Hides, b.Hides) &&
		slices.EqualFunc(a.Teams, b.Teams, func(a, b config.Team) bool {
			return a.Name == b.Name && a.Place == b.Place && slices.Equal(a.Members, b.Members) &&
				sameRules(a.Exposes, b.Exposes) && sameRules(a.Hides, b.Hides) &&
				slices.EqualFunc(a.Upstreams, b.Upstreams, func(a, b config.Upstream) bool {
					return a.Name == b.Name && a.Place == b.Place
				})
		})
}

// sameRules compares conditions by their text: their compiled form holds functions, which cannot be
// compared.
func sameRules(a, b []config.Rule) bool {
	text := func(c *config.Condition) string {
		if c == nil {
			return ""
		}
		return c.String()
	}
	return slices.EqualFunc(a, b, func(a, b config.Rule) bool {
		same := (a.When == nil) == (b.When == nil) && text(a.When) == text(b.When)
		// These are copies; what was compared by its text must not be compared by reflection.
		a.When, b.When = nil, nil
		return same && reflect.DeepEqual(a, b)
	})
}

func sourcesOf(cfg *config.Config) []catalog.Source {
	upstreams := cfg.Upstreams()
	sources := make([]catalog.Source, len(upstreams))
	for i, u := range upstreams {
		sources[i] = catalog.Source{Upstream: u.Name, Team: u.Team, Prefix: u.Prefix, Skills: u.Skills != "", Place: u.Place.String()}
	}
	return sources
}

// Index returns the index of the upstream with a label in all that is kept for each upstream.
func (g *Generation) Index(label string) (i int, known bool) {
	i, known = g.index[label]
	return i, known
}

// Connector returns the connector of the upstream with a label, or nil.
func (g *Generation) Connector(label string) *upstream.Connector {
	if i, known := g.index[label]; known && len(g.Connectors) > 0 {
		return g.Connectors[i]
	}
	return nil
}

// Assertion returns what says to an upstream's server who calls; the zero value if it is not to know.
func (g *Generation) Assertion(label string, caller *policy.Principal) (client.Assertion, error) {
	u := &g.Upstreams[g.index[label]]
	value, err := g.Assertions.For(u, caller)
	if value == "" {
		return client.Assertion{}, err
	}
	return client.Assertion{Header: u.Assertion.Header, Value: value}, nil
}

// ServerID identifies the server behind an upstream's label, or is empty for an unknown label. A
// reload may give the label to another server, which must not receive state and replies that are
// meant for this one.
func (g *Generation) ServerID(label string) string {
	connector := g.Connector(label)
	if connector == nil {
		return ""
	}
	return digest([]byte(serverOf(connector.Upstream())))
}

// TeamLimit returns the limit of a team's prompts; nil where there is none.
func (g *Generation) TeamLimit(team string) *config.Limit { return g.teamLimits[team] }

// Screen returns the screen blocks that apply to a team's prompts; nil where there are none.
func (g *Generation) Screen(team string) *screen.Screen { return g.admission.teams[team].screen }

// Sources returns the upstreams as the catalog knows them, without prompts.
func (g *Generation) Sources() []catalog.Source { return slices.Clone(g.sources) }

// Replaced is closed once another generation has taken this one's place.
func (g *Generation) Replaced() <-chan struct{} { return g.replaced }

// ExposedName returns the exposed name of an upstream's prompt without its prompt block.
func (g *Generation) ExposedName(source *catalog.Source, own string) string {
	return g.admission.exposedName(source, own)
}

// PromptBlock returns the prompt block for an upstream's prompt; nil where there is none.
func (g *Generation) PromptBlock(source *catalog.Source, own string) *config.Override {
	return g.admission.overrideOf(source, own).Override
}

// Candidates returns the upstreams that may expose a prompt under a name, those that a prompt block
// gives the name first.
func (g *Generation) Candidates(name string) (all []catalog.Candidate) {
	var labels []string
	for label, o := range g.admission.overrides {
		if o.Name == name && label != name {
			labels = append(labels, label)
		}
	}
	slices.Sort(labels)
	for _, label := range append(labels, name) {
		all = append(all, catalog.Candidates(g.sources, g.Config.Gateway.Separator, label)...)
	}
	return all
}

func (g *Generation) catalogOptions() catalog.Options {
	p := g.Policy // not g: a catalog may outlive many generations, and keeps these options
	return catalog.Options{
		Separator: g.Config.Gateway.Separator, KeepFirst: g.Config.Gateway.Conflict == config.ConflictFirst,
		Decide: func(e *catalog.Entry) (decided []*policy.Visibility) {
			owners := e.Owners
			if !p.ReadsUpstream(e.Team, e.Name) {
				owners = owners[:1]
			}
			for _, owner := range owners {
				decided = append(decided, p.Visibility(e.Team, owner.Upstream, e.Name, e.Facts()))
			}
			return decided
		},
	}
}

// mergesLike reports whether both generations make the same catalog from the same lists.
func (g *Generation) mergesLike(other *Generation) bool {
	return g.Policy == other.Policy && g.Config.Gateway.Separator == other.Config.Gateway.Separator &&
		g.Config.Gateway.Conflict == other.Config.Gateway.Conflict &&
		slices.EqualFunc(g.sources, other.sources, func(a, b catalog.Source) bool {
			return a.Upstream == b.Upstream && a.Team == b.Team && a.Prefix == b.Prefix && a.Skills == b.Skills && a.Place == b.Place
		})
}

// kept returns, for each upstream, the index in an earlier generation at which the same server's
// list was admitted by the same rules, or -1.
func (g *Generation) kept(before *Generation) []int {
	indexes, same := before.index, g.admission.sameTeams(before.admission)
	kept := make([]int, len(g.Upstreams))
	for i := range g.Upstreams {
		u := &g.Upstreams[i]
		kept[i] = -1
		if at, known := indexes[u.Name]; known && same[u.Team] && g.sameServer(before, i, at) &&
			g.admission.rulesOf(&g.sources[i]) == before.admission.rulesOf(&before.sources[at]) {
			kept[i] = at
		}
	}
	return kept
}

// sameServer reports whether the upstream at index i is the same server as the one at index at of
// another generation.
func (g *Generation) sameServer(other *Generation, i, at int) bool {
	if len(g.Connectors) > 0 && len(other.Connectors) > 0 && g.Connectors[i] == other.Connectors[at] {
		return true
	}
	return serverOf(g.Upstreams[i]) == serverOf(other.Upstreams[at])
}

// all returns the indexes of all upstreams.
func (g *Generation) all() []int {
	all := make([]int, len(g.Upstreams))
	for i := range all {
		all[i] = i
	}
	return all
}

// state returns how the upstream at index i is now; the zero value where nothing is contacted.
func (g *Generation) state(i int) *upstream.State {
	if len(g.Connectors) == 0 {
		return &upstream.State{}
	}
	return g.Connectors[i].State()
}

// definitions returns the list of the upstream at index i: its connector's, or else the saved one.
func (g *Generation) definitions(i int, state *upstream.State) (definitions []jsontext.Value, known bool) {
	if state.Lists == 0 {
		saved := g.saved[g.Upstreams[i].Name].Definitions
		return saved, saved != nil
	}
	return state.Definitions, true
}
