package publish

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/loglimit"
	"github.com/promptweir/promptweir/upstream/wire"
)

// admission decides which definitions of an upstream's list reach the catalog, and in which form:
//
//	definition ─▶ approved by the lock file? ─▶ override by its prompt block ─▶ name ─▶ screens ─▶ catalog
//
// It reports each definition that it leaves out.
type admission struct {
	*snapshot.Generation

	logger *slog.Logger // for panics; limited in rate, because servers can cause any number of them
}

// newAdmissionLogger returns a logger that limits the records of panics per upstream.
func newAdmissionLogger(logger *slog.Logger) *slog.Logger { return loglimit.New(logger, 1, "upstream") }

// admit decides about each definition of one upstream's list. It leaves out and reports each
// definition that is not a prompt, must not be listed, or causes a panic. Decisions in earlier, which
// may be nil, are reused if their rules are the same. The error is the context's.
func (a admission) admit(
	ctx context.Context, source *catalog.Source, definitions []jsontext.Value, earlier *admitted,
) (*admitted, error) {
	list := &admitted{
		definitions: definitions, rules: rulesOf(a.Generation, source), decisions: make([]*decision, len(definitions)),
		prompts: make([]*catalog.Prompt, 0, len(definitions)), overridden: map[string]bool{},
	}
	if earlier != nil && earlier.rules.skills != list.rules.skills {
		earlier = nil // its definitions were parsed by another rule for skills
	}
	sameRules, find := earlier != nil && earlier.rules == list.rules, earlier.finder()
	logger := a.logger.With(slog.String("upstream", source.Upstream))
	for i, definition := range definitions {
		var d *decision
		broke := client.RecoverToError(logger, func() error {
			d = a.decide(ctx, source, definition, find(i, definition), sameRules)
			return nil
		})
		// After the end of ctx, a screen may have rejected the prompt only because it was
		// interrupted, so the decision is ignored.
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if broke != nil {
			d = &decision{found: &findings{unreadable: broke}}
		}
		list.add(i, d, source)
	}
	list.finish(source, a.upstream(source))
	return list, nil
}

// decide returns the decision about one definition. previous is the earlier decision about this
// definition, or nil if there is none. sameRules is true if the rules for the whole list are
// unchanged.
func (a admission) decide(
	ctx context.Context, source *catalog.Source, definition jsontext.Value, previous *decision, sameRules bool,
) *decision {
	if previous == nil {
		previous, sameRules = parse(definition, source.Skills), false
	}
	if previous.sent == nil {
		return previous
	}
	rules := a.rulesFor(source, previous.sent)
	if sameRules && previous.rules == rules {
		return previous
	}
	d := &decision{sent: previous.sent, rules: rules}
	a.apply(ctx, source, d)
	return d
}

// parse returns a decision to which no rule has been applied yet.
func parse(definition jsontext.Value, skills bool) *decision {
	prompt, err := catalog.ParseDefinition(definition, skills)
	if err != nil {
		return &decision{found: &findings{unreadable: err}}
	}
	return &decision{sent: &prompt}
}

// rulesOf returns the rules for all prompts of an upstream.
func rulesOf(g *snapshot.Generation, source *catalog.Source) listRules {
	team := g.Teams[source.Team]
	return listRules{
		upstream: source.Upstream, team: source.Team, prefix: source.Prefix, skills: source.Skills,
		separator: g.Config.Gateway.Separator, place: source.Place,
		lock: team.Lock, screen: team.Screen,
	}
}

// rulesFor returns the rules for one prompt, in addition to [rulesOf].
func (a admission) rulesFor(source *catalog.Source, prompt *catalog.Prompt) promptRules {
	rules := promptRules{block: a.PromptBlock(source, prompt.Name)}
	if a.Teams[source.Team].Lock.Mode == config.LockOff {
		return rules
	}
	state := a.Config.Lock.State(a.ExposedName(source, prompt.Name), prompt.Hash)
	switch {
	case prompt.Skill != nil && prompt.Skill.Dynamic:
		rules.drift = "is dynamic, which no lock can approve"
	case state == config.LockMissing:
		rules.drift = "is not in " + config.LockFile
	case state == config.LockDiffers:
		rules.drift = "differs from its definition in " + config.LockFile
	}
	return rules
}

// apply applies the rules to the prompt of a decision, until one of them leaves the prompt out. The
// earlier version of a prompt that is left out does not stay in the catalog.
func (a admission) apply(ctx context.Context, source *catalog.Source, d *decision) {
	prompt := d.sent
	type check = func(
		context.Context, *catalog.Source, *catalog.Prompt, promptRules,
	) (*catalog.Prompt, []catalog.Report)
	// The lock comes first, because it approves the server's definition. The screens come last,
	// because they check the result.
	for _, check := range []check{a.checkLock, a.override, a.checkName, a.screen} {
		next, found := check(ctx, source, prompt, d.rules)
		if len(found) > 0 {
			d.found = &findings{reports: append(d.findings().reports, found...)}
		}
		if prompt = next; prompt == nil {
			return
		}
	}
	d.listed = prompt
}

// checkLock reports a definition that the lock file does not approve. The lock's mode decides
// whether the prompt is listed.
func (a admission) checkLock(
	_ context.Context, source *catalog.Source, prompt *catalog.Prompt, rules promptRules,
) (*catalog.Prompt, []catalog.Report) {
	if rules.drift == "" {
		return prompt, nil
	}
	lock, one, several := a.Teams[source.Team].Lock, "it is left out", "are left out"
	if lock.Mode == config.LockWarn {
		one, several = "it is listed anyway", "are listed anyway"
	}
	flags := " --config PATH --team " + source.Team
	if a.upstream(source).Files == nil {
		flags += " --live"
	}
	how := fmt.Sprintf(" (lock = %q at %s); review: promptweir lock%s --diff; approve: promptweir lock%s", lock.Mode, lock.Place, flags, flags)
	report := a.report(catalog.Drift, rules.drift, source, prompt, "%s: %s%s", rules.drift, one, how)
	report.Several = "are not approved and " + several + how
	if lock.Mode == config.LockEnforce {
		return nil, []catalog.Report{report}
	}
	return prompt, []catalog.Report{report}
}

// override applies the prompt block.
func (a admission) override(
	ctx context.Context, source *catalog.Source, prompt *catalog.Prompt, rules promptRules,
) (*catalog.Prompt, []catalog.Report) {
	if rules.block == nil {
		return prompt, nil
	}
	overridden, err := prompt.Override(ctx, rules.block)
	if err != nil {
		misfit := a.report(catalog.Misfit, err.Error(), source, prompt,
			"does not fit its prompt block (%s), so it is left out: %v; correct the block", rules.block.Place, err)
		misfit.Block = rules.block.Place.String()
		return nil, []catalog.Report{misfit}
	}
	return &overridden, nil
}

// checkName leaves out a prompt with invisible characters in its exposed name, because the name could
// look like another team's.
func (a admission) checkName(
	_ context.Context, source *catalog.Source, prompt *catalog.Prompt, _ promptRules,
) (*catalog.Prompt, []catalog.Report) {
	name := a.clientsName(source, prompt)
	if _, hides := config.HiddenIn(name); !hides {
		return prompt, nil
	}
	return nil, []catalog.Report{a.report(catalog.InvisibleName, "", source, prompt,
		"is left out because its name, %+q, has invisible characters; rename it on the server, or in a prompt block", name)}
}

// screen checks a definition, in the form for clients, against the screen blocks.
func (a admission) screen(
	ctx context.Context, source *catalog.Source, prompt *catalog.Prompt, _ promptRules,
) (*catalog.Prompt, []catalog.Report) {
	outcome, err := a.Screen(source.Team).Definition(ctx, prompt.Definition, a.clientsName(source, prompt))
	// The only error is the context's, which admit returns.
	if err != nil {
		return nil, nil
	}
	if f := outcome.Rejected; f != nil {
		return nil, []catalog.Report{a.report(catalog.Screened, f.String(), source, prompt,
			"is left out because its definition has %s, %s; correct it on the server", f, f.Block.Place)}
	}
	if len(outcome.Noted) == 0 {
		return prompt, nil
	}
	first := outcome.Noted[0]
	reports := []catalog.Report{a.report(catalog.Screened, first.String(), source, prompt,
		"has %s in its definition, %s (action = %q; findings: %d)", first, first.Block.Place, first.Block.Action, len(outcome.Noted))}
	screened, err := prompt.With(outcome.JSON)
	if err != nil {
		return nil, reports // unreachable: a screen changes only strings
	}
	return &screened, reports
}

// upstream returns the upstream of a source.
func (a admission) upstream(source *catalog.Source) *config.Upstream {
	i, _ := a.Index(source.Upstream)
	return &a.Upstreams[i]
}

// clientsName returns the prompt's name for clients.
func (a admission) clientsName(source *catalog.Source, prompt *catalog.Prompt) string {
	return cmp.Or(prompt.Exposed, a.ExposedName(source, prompt.Name))
}

// unmatchedBlocks reports the prompt blocks that match no prompt. It skips a block if the complete
// list of any upstream that could offer the prompt is unknown. lists and complete have upstream
// labels as keys.
func unmatchedBlocks(g *snapshot.Generation, lists map[string]*admitted, complete map[string]bool) (reports []catalog.Report) {
	for _, label := range slices.Sorted(maps.Keys(g.Overrides)) {
		o := g.Overrides[label]
		mayMatch := func(c catalog.Candidate) bool {
			return !complete[c.Source.Upstream] || lists[c.Source.Upstream].overridden[label]
		}
		if len(o.Candidates) == 0 || slices.ContainsFunc(o.Candidates, mayMatch) {
			continue
		}
		first, nearest := o.Candidates[0], ""
		if len(reports) < maxNearest {
			nearest = nearestName(label, lists[first.Source.Upstream])
		}
		reports = append(reports, catalog.Report{
			Kind: catalog.Unmatched, Name: label, Block: o.Place.String(),
			Owners: []catalog.Owner{first.Source.Owner(first.Own)},
			Text: fmt.Sprintf("the prompt block %s (%s) has no effect: upstream %q (%s) offers no "+
				"such prompt%s; correct or remove it",
				wire.Quote(label), o.Place, first.Source.Upstream, first.Source.Place, nearest),
		})
	}
	return reports
}

func unreadable(source *catalog.Source, i int, err error) catalog.Report {
	return catalog.Report{
		Kind: catalog.Unreadable, Name: fmt.Sprintf("%s[%d]", source.Upstream, i),
		Owners: []catalog.Owner{source.Owner("")},
		Text: fmt.Sprintf("upstream %q (%s) lists an invalid prompt, which is left out; correct it on the server: %v",
			source.Upstream, source.Place, err),
	}
}

// report returns a report about a prompt in an upstream's list.
func (a admission) report(
	kind catalog.Kind, finding string, source *catalog.Source, prompt *catalog.Prompt, format string, args ...any,
) catalog.Report {
	// The key contains the definition, so that a new definition with the same problem is reported
	// again.
	name := a.ExposedName(source, prompt.Name)
	return catalog.Report{
		Kind: kind, Name: name,
		Owners:  []catalog.Owner{source.Owner(prompt.Name)},
		Finding: fmt.Sprintf("%x %s", prompt.Hash, finding),
		Text: fmt.Sprintf("prompt %q of upstream %q (%s) ", name, source.Upstream, source.Place) +
			fmt.Sprintf(format, args...),
	}
}
