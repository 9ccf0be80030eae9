package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"go.mau.fi/util/exslices"

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

// requestStates is the purpose of sealed requestStates, which separates them from other sealed
// tokens: a token of another purpose does not open as a requestState.
const requestStates = "request state"

// hashedArguments is the purpose of keyed hashes of arguments.
const hashedArguments = "audit arguments"

// Generation holds everything that follows from one configuration. It is immutable. A reload makes
// a new generation, which shares unchanged connectors, screens and prompt blocks with the old one.
type Generation struct {
	Config *config.Config
	// Upstreams are in configuration order.
	Upstreams []config.Upstream
	// Connectors are the upstreams' connectors in the same order. They are empty if the gateway
	// contacts no upstream. A connector may have been made for an earlier configuration with the same
	// server.
	Connectors []Connector

	Policy   *policy.Policy
	Identity *identity.Authenticator
	Sealer   *seal.Sealer
	// Assertions makes the assertions about callers for servers.
	Assertions *assertion.Signer
	// RequestStates seals the requestState of gets that ask their client for input.
	RequestStates *seal.Box
	// ArgumentHashes hashes arguments for the audit log.
	ArgumentHashes *seal.MAC
	// Origins checks requests to the MCP endpoint, AdminOrigins requests to the admin listener.
	Origins, AdminOrigins origin.Check

	// Skills is true if any upstream's skills are served. Links is true if links in any upstream's
	// results can be read.
	Skills, Links bool

	// Teams contains the rules for each team's prompts, by the team's name.
	Teams map[string]TeamRules
	// Overrides are the prompt blocks, by the exposed name that their prompt would have without the
	// block.
	Overrides map[string]Override
	// Sources are the upstreams in the form for the catalog, but without prompts.
	Sources []catalog.Source
	// Saved contains the lists, by label, of upstreams whose connectors have not listed them yet.
	Saved Lists
	// Folders are the lists of upstreams with files, by label, if the generation has no connectors.
	// FolderProblems are the findings in these files.
	Folders        map[string]*files.List
	FolderProblems map[string][]files.Problem

	index map[string]int // by label
	// replaced is closed when another generation has replaced this one.
	replaced chan struct{}
}

// Connector consists of the methods of [*upstream.Connector] that requests use. Tests use a
// connector in memory.
type Connector interface {
	Upstream() config.Upstream
	State() *upstream.State
	Completes() bool
	Call(ctx context.Context, request *upstream.Request, relay *upstream.Relay) (upstream.Result, error)
	Relist()
	ConnectNow()
}

// TeamRules are the rules for the prompts of one team.
type TeamRules struct {
	Lock      config.LockSetting
	Overrides []config.Override
	Screen    *screen.Screen // nil if there are no screen blocks
	Limit     *config.Limit  // nil if there is no limit block
}

// Override is a prompt block, the team that owns the prompt, and the upstreams that may offer it.
type Override struct {
	*config.Override

	Team       string
	Candidates []catalog.Candidate
}

// NewGeneration returns the generation of a configuration, without connectors and saved lists.
// Equal parts are shared with before, which may be nil.
func NewGeneration(cfg *config.Config, before *Generation, logger *slog.Logger) (*Generation, error) {
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
		Policy: newPolicy(cfg, logger), Identity: identity.New(cfg, logger),
		Assertions: assertions, Sealer: sealer, RequestStates: sealer.For(requestStates), ArgumentHashes: sealer.MAC(hashedArguments),
		Origins:      origin.New(cfg.Gateway.Listen, cfg.Gateway.PublicURL, cfg.Gateway.AllowedHosts, cfg.Gateway.AllowedOrigins),
		AdminOrigins: origin.New(cfg.Admin.Listen, "", cfg.Gateway.AllowedHosts, nil),
		Sources:      sourcesOf(cfg), index: map[string]int{},
		Skills: cfg.HasSkills(),
		Links:  slices.ContainsFunc(cfg.Upstreams(), func(u config.Upstream) bool { return u.Resources == config.ResourcesLinked }),
		Teams:  make(map[string]TeamRules, len(cfg.Teams)), Overrides: map[string]Override{},
		Saved: Lists{}, Folders: map[string]*files.List{}, FolderProblems: map[string][]files.Problem{}, replaced: make(chan struct{}),
	}
	for i := range g.Upstreams {
		g.index[g.Upstreams[i].Name] = i
	}
	if before == nil {
		before = &Generation{Config: &config.Config{}}
	} else {
		// A reload must not refuse tokens because an issuer is unreachable at that moment.
		g.Identity.InheritKeys(before.Identity)
	}
	for i := range cfg.Teams {
		g.addTeam(&cfg.Teams[i], before)
	}
	return g, nil
}

// addTeam adds the rules and prompt blocks of a team. An unchanged screen or block keeps its
// pointer, because the admission in package publish compares pointers.
func (g *Generation) addTeam(team *config.Team, before *Generation) {
	rules := TeamRules{Lock: g.Config.LockFor(team.Name), Overrides: team.Overrides, Limit: team.Limit}
	screens := g.Config.ScreensFor(team.Name)
	if was, known := before.Teams[team.Name]; known && reflect.DeepEqual(before.Config.ScreensFor(team.Name), screens) {
		rules.Screen = was.Screen
	} else {
		rules.Screen = screen.New(screens)
	}
	g.Teams[team.Name] = rules
	for i := range team.Overrides {
		block := &team.Overrides[i]
		if was := before.Overrides[block.Prompt]; was.Override != nil && reflect.DeepEqual(was.Override, block) {
			block = was.Override
		}
		g.Overrides[block.Prompt] = Override{block, team.Name, catalog.Candidates(g.Sources, g.Config.Gateway.Separator, block.Prompt)}
	}
}

// newSealer returns the sealer of before if the keys are the same: if none are configured, its key is
// random and cannot be made again.
func newSealer(cfg *config.Config, before *Generation) (*seal.Sealer, error) {
	if before != nil && slices.Equal(before.Config.Gateway.CursorKeys, cfg.Gateway.CursorKeys) {
		return before.Sealer, nil
	}
	return seal.New(exslices.CastFunc(cfg.Gateway.CursorKeys, config.Key.Reveal))
}

// newPolicy returns the policy of a configuration. The policy logs conditions whose evaluation
// fails.
func newPolicy(cfg *config.Config, logger *slog.Logger) *policy.Policy {
	return policy.New(cfg).ReportFailures(func(f policy.Failure) {
		if errors.Is(f.Err, policy.ErrBudget) {
			logger.Warn("conditions take too long: requests fail", slog.String("rule", f.Rule))
			return
		}
		logger.Warn("condition failed: hide hides, expose does not expose", slog.String("rule", f.Rule),
			slog.String("prompt", f.Prompt), slog.Any("error", f.Err))
	})
}

func sourcesOf(cfg *config.Config) []catalog.Source {
	return exslices.CastFunc(cfg.Upstreams(), func(u config.Upstream) catalog.Source {
		return catalog.Source{Upstream: u.Name, Team: u.Team, Prefix: u.Prefix, Skills: u.Skills != "", Place: u.Place.String()}
	})
}

// Index returns the index of the upstream with a label.
func (g *Generation) Index(label string) (i int, known bool) {
	i, known = g.index[label]
	return i, known
}

// Connector returns the connector of the upstream with a label, or nil if the label is unknown or the
// generation has no connectors.
func (g *Generation) Connector(label string) Connector {
	if i, known := g.index[label]; known && len(g.Connectors) > 0 {
		return g.Connectors[i]
	}
	return nil
}

// Assertion returns the assertion about a caller for the server of an upstream, or the zero value if
// the server gets no assertion.
func (g *Generation) Assertion(label string, caller *policy.Principal) (client.Assertion, error) {
	u := &g.Upstreams[g.index[label]]
	value, err := g.Assertions.For(u, caller)
	if value == "" {
		return client.Assertion{}, err
	}
	return client.Assertion{Header: u.Assertion.Header, Value: value}, nil
}

// ServerID identifies the server of the upstream with a label. It is empty if the label is unknown.
// After a reload the label may belong to another server, which must not receive the state and replies
// that are meant for the first server.
func (g *Generation) ServerID(label string) string {
	connector := g.Connector(label)
	if connector == nil {
		return ""
	}
	return Digest([]byte(ServerOf(connector.Upstream())))
}

// TeamLimit returns the limit of a team's prompts, or nil if the team has no limit.
func (g *Generation) TeamLimit(team string) *config.Limit { return g.Teams[team].Limit }

// Screen returns the screen blocks for a team's prompts, or nil if there are none.
func (g *Generation) Screen(team string) *screen.Screen { return g.Teams[team].Screen }

// Replaced returns a channel that is closed when another generation has replaced this one.
func (g *Generation) Replaced() <-chan struct{} { return g.replaced }

// ExposedName returns the exposed name of an upstream's prompt without its prompt block.
func (g *Generation) ExposedName(source *catalog.Source, own string) string {
	return source.Exposed(g.Config.Gateway.Separator, own)
}

// PromptBlock returns the prompt block of an upstream's prompt, or nil if the prompt has no block.
func (g *Generation) PromptBlock(source *catalog.Source, own string) *config.Override {
	if len(g.Overrides) == 0 {
		return nil
	}
	// Compare the team: another team's prompt could have the same name.
	if o := g.Overrides[g.ExposedName(source, own)]; o.Team == source.Team {
		return o.Override
	}
	return nil
}

// Candidates returns the upstreams that may expose a prompt under a name. Upstreams with a prompt
// block that renames a prompt to the name come first.
func (g *Generation) Candidates(name string) (all []catalog.Candidate) {
	var labels []string
	for label, o := range g.Overrides {
		if o.Name == name && label != name {
			labels = append(labels, label)
		}
	}
	slices.Sort(labels)
	for _, label := range append(labels, name) {
		all = append(all, catalog.Candidates(g.Sources, g.Config.Gateway.Separator, label)...)
	}
	return all
}

// LatestList returns the list of the upstream at index i: from its connector, or from Saved until
// the connector has listed.
func (g *Generation) LatestList(i int, state *upstream.State) (definitions []jsontext.Value, known bool) {
	if state.Lists == 0 {
		saved := g.Saved[g.Upstreams[i].Name].Definitions
		return saved, saved != nil
	}
	return state.Definitions, true
}

// ServerOf identifies the server of an upstream by team, label and address. The result contains no
// secrets.
func ServerOf(u config.Upstream) string { return u.Team + "/" + u.Name + " " + u.Address() }

// Digest returns the SHA-256 of bytes in hexadecimal digits.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
