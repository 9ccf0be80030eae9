package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/screen"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/loglimit"
	"github.com/promptweir/promptweir/upstream/wire"
)

// admission decides which definitions of an upstream's list reach the catalog, and in which form:
//
//	definition ─▶ approved by the lock file? ─▶ override by its prompt block ─▶ name ─▶ screens ─▶ catalog
//
// Whatever it leaves out, it reports. It is immutable.
type admission struct {
	cfg    *config.Config
	logger *slog.Logger // of panics, which a server may cause as often as it likes
	// overrides are by the exposed name that a prompt has without them.
	overrides map[string]override
	teams     map[string]teamRules
	// masks hide each upstream's secrets in reports, which quote definitions.
	masks map[string]config.Mask
	// lockFlags are those of promptweir lock for each upstream.
	lockFlags map[string]string
}

// teamRules are what one team's definitions have to pass.
type teamRules struct {
	lock    config.LockSetting
	blocks  []config.Override
	screens []config.Screen
	screen  *screen.Screen // of the screens
}

// override is a prompt block, the team that owns the prompt, and the upstreams that may offer it.
type override struct {
	*config.Override

	team       string
	candidates []catalog.Candidate
}

// newAdmission returns the admission of a configuration. It shares with before, which may be nil,
// the screens and prompt blocks that both configurations have, so that what was found out with them
// still counts.
func newAdmission(cfg *config.Config, before *admission, logger *slog.Logger) *admission {
	a := &admission{
		cfg: cfg, logger: loglimit.New(logger, 1, "upstream"), overrides: map[string]override{}, teams: make(map[string]teamRules, len(cfg.Teams)),
		masks: map[string]config.Mask{}, lockFlags: map[string]string{},
	}
	for _, u := range cfg.Upstreams() {
		a.masks[u.Name], a.lockFlags[u.Name] = u.Mask(), " --config PATH --team "+u.Team
		if u.Files == nil {
			a.lockFlags[u.Name] += " --live"
		}
	}
	if before == nil {
		before = &admission{}
	}
	sources := sourcesOf(cfg)
	for i := range cfg.Teams {
		team := &cfg.Teams[i]
		rules := teamRules{lock: cfg.LockFor(team.Name), blocks: team.Overrides, screens: cfg.ScreensFor(team.Name)}
		// The pointers stay the same where nothing has changed: sameTeams and rulesOf compare them.
		if was, known := before.teams[team.Name]; known && reflect.DeepEqual(was.screens, rules.screens) {
			rules.screen = was.screen
		} else {
			rules.screen = screen.New(rules.screens)
		}
		a.teams[team.Name] = rules
		for j := range team.Overrides {
			block := &team.Overrides[j]
			if was := before.overrides[block.Prompt]; was.Override != nil && reflect.DeepEqual(was.Override, block) {
				block = was.Override
			}
			candidates := catalog.Candidates(sources, cfg.Gateway.Separator, block.Prompt)
			a.overrides[block.Prompt] = override{block, team.Name, candidates}
		}
	}
	return a
}

// sameTeams returns the teams whose definitions both admissions treat alike: with the same lock,
// prompt blocks and screens at the same places.
func (a *admission) sameTeams(other *admission) map[string]bool {
	same := make(map[string]bool, len(a.teams))
	// It is part of names in lock, blocks and reports.
	if a.cfg.Gateway.Separator != other.cfg.Gateway.Separator {
		return same
	}
	// Once: a lock file may have tens of thousands of entries.
	sameLock := slices.Equal(a.cfg.Lock, other.cfg.Lock)
	for name, rules := range a.teams {
		before, known := other.teams[name]
		same[name] = known && rules.lock == before.lock && (sameLock || rules.lock.Mode == config.LockOff) &&
			rules.screen == before.screen && reflect.DeepEqual(rules.blocks, before.blocks)
	}
	return same
}

// admitOffer is [admission.admit] for what an upstream offers. After a panic over it, the error is
// not that of ctx.
func (a *admission) admitOffer(
	ctx context.Context, source *catalog.Source, o offer, earlier *admitted,
) (list *admitted, err error) {
	err = client.Guard(a.logger.With(slog.String("upstream", source.Upstream)), func() (err error) {
		list, err = a.admit(ctx, source, o.definitions, earlier)
		return err
	})
	if err != nil {
		return nil, err
	}
	list.offer = o
	return list, nil
}

// admit reads one upstream's list. It leaves out and reports each definition that is not a prompt
// or may not be listed. What an earlier list of the upstream, which may be nil, tells of the same
// definition counts again as far as it follows from the same rules. The error is that of ctx if it
// ended meanwhile.
func (a *admission) admit(
	ctx context.Context, source *catalog.Source, definitions []jsontext.Value, earlier *admitted,
) (*admitted, error) {
	list := &admitted{
		definitions: definitions, rules: a.rulesOf(source), judged: make([]*judged, len(definitions)),
		prompts: make([]*catalog.Prompt, 0, len(definitions)), overridden: map[string]bool{},
	}
	if earlier != nil && earlier.rules.skills != list.rules.skills {
		earlier = nil // what is a prompt, and what a skill, was read otherwise
	}
	find := earlier.finder()
	for i, definition := range definitions {
		j, err := a.judge(ctx, source, definition, find(i, definition), earlier != nil && earlier.rules == list.rules)
		if err != nil {
			return nil, err
		}
		list.add(i, j, source)
	}
	list.finish(source, a.masks[source.Upstream])
	return list, nil
}

// judge returns what becomes of one definition. Known, which may be nil, is what became of it
// before, and sameRules says whether the rules for the whole list are still the same.
func (a *admission) judge(
	ctx context.Context, source *catalog.Source, definition jsontext.Value, known *judged, sameRules bool,
) (*judged, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if known == nil {
		j := parse(definition, source.Skills)
		if j.sent != nil {
			j.rules = a.rulesFor(source, j.sent)
			a.apply(ctx, source, j)
		}
		// A screen that was cut short leaves the prompt out, which must not count.
		return j, ctx.Err()
	}
	if known.sent == nil {
		return known, nil
	}
	rules := a.rulesFor(source, known.sent)
	if sameRules && known.rules == rules {
		return known, nil
	}
	j := &judged{sent: known.sent, rules: rules}
	a.apply(ctx, source, j)
	return j, ctx.Err()
}

// parse returns a definition that no rule was applied to.
func parse(definition jsontext.Value, skills bool) *judged {
	prompt, err := catalog.ParseDefinition(definition, skills)
	if err != nil {
		return &judged{found: &findings{unreadable: err}}
	}
	return &judged{sent: &prompt}
}

// rulesOf returns what of the configuration decides over all prompts of an upstream.
func (a *admission) rulesOf(source *catalog.Source) listRules {
	team := a.teams[source.Team]
	return listRules{
		upstream: source.Upstream, team: source.Team, prefix: source.Prefix, skills: source.Skills,
		separator: a.cfg.Gateway.Separator, place: source.Place,
		lock: team.lock, screen: team.screen,
	}
}

// rulesFor returns what of the configuration decides over one prompt, beside what decides over all.
func (a *admission) rulesFor(source *catalog.Source, prompt *catalog.Prompt) promptRules {
	rules := promptRules{block: a.overrideOf(source, prompt.Name).Override}
	if a.teams[source.Team].lock.Mode == config.LockOff {
		return rules
	}
	state := a.cfg.Lock.State(a.exposedName(source, prompt.Name), prompt.Hash)
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

// apply fills in what becomes of a prompt by its rules.
func (a *admission) apply(ctx context.Context, source *catalog.Source, j *judged) {
	prompt := j.sent
	type check = func(
		context.Context, *catalog.Source, *catalog.Prompt, promptRules,
	) (*catalog.Prompt, []catalog.Report)
	// The lock first, which approves what the server sent; the screens last, which judge what
	// clients see.
	for _, check := range []check{a.checkLock, a.override, a.checkName, a.screen} {
		next, found := check(ctx, source, prompt, j.rules)
		if len(found) > 0 {
			j.found = &findings{reports: append(j.findings().reports, found...)}
		}
		if prompt = next; prompt == nil {
			return
		}
	}
	j.listed = prompt
}

// checkLock reports a definition that the lock file does not approve. Whether it is listed depends
// on the lock's mode.
func (a *admission) checkLock(
	_ context.Context, source *catalog.Source, prompt *catalog.Prompt, rules promptRules,
) (*catalog.Prompt, []catalog.Report) {
	if rules.drift == "" {
		return prompt, nil
	}
	lock, one, several := a.teams[source.Team].lock, "it is left out", "are left out"
	if lock.Mode == config.LockWarn {
		one, several = "it is listed anyway", "are listed anyway"
	}
	flags := a.lockFlags[source.Upstream]
	how := fmt.Sprintf(" (lock = %q at %s); review: promptweir lock%s --diff; approve: promptweir lock%s", lock.Mode, lock.Place, flags, flags)
	report := a.report(catalog.Drift, rules.drift, source, prompt, "%s: %s%s", rules.drift, one, how)
	report.Several = "are not approved and " + several + how
	if lock.Mode == config.LockEnforce {
		return nil, []catalog.Report{report}
	}
	return prompt, []catalog.Report{report}
}

// override applies the prompt block.
func (a *admission) override(
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

// checkName leaves out a prompt whose exposed name has characters that people cannot see: it could
// pass for another team's.
func (a *admission) checkName(
	_ context.Context, source *catalog.Source, prompt *catalog.Prompt, _ promptRules,
) (*catalog.Prompt, []catalog.Report) {
	name := a.clientsName(source, prompt)
	if _, hides := config.HiddenIn(name); !hides {
		return prompt, nil
	}
	return nil, []catalog.Report{a.report(catalog.InvisibleName, "", source, prompt,
		"is left out because its name, %+q, has invisible characters; rename it on the server, or in a prompt block", name)}
}

// screen checks a definition, as clients are to see it, against the screen blocks.
func (a *admission) screen(
	ctx context.Context, source *catalog.Source, prompt *catalog.Prompt, _ promptRules,
) (*catalog.Prompt, []catalog.Report) {
	outcome, err := a.teams[source.Team].screen.Definition(ctx, prompt.Definition, a.clientsName(source, prompt))
	// Only because ctx has ended, which judge reports.
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
		return nil, reports // unreachable: a screen only changes the content of strings
	}
	return &screened, reports
}

// overrideOf returns the prompt block for an upstream's prompt; the zero value where there is none.
func (a *admission) overrideOf(source *catalog.Source, own string) override {
	if len(a.overrides) == 0 {
		return override{}
	}
	// The label alone does not decide: another team's prompt could be exposed under it.
	if o := a.overrides[a.exposedName(source, own)]; o.team == source.Team {
		return o
	}
	return override{}
}

// exposedName returns the name that clients would see if no prompt block gave another.
func (a *admission) exposedName(source *catalog.Source, own string) string {
	return source.Exposed(a.cfg.Gateway.Separator, own)
}

// clientsName returns the name that clients see.
func (a *admission) clientsName(source *catalog.Source, prompt *catalog.Prompt) string {
	return cmp.Or(prompt.Exposed, a.exposedName(source, prompt.Name))
}

// unmatched reports the prompt blocks that match no prompt, once every upstream that could offer
// one is listed. The lists are by upstream; of one that is not in complete, not all prompts are
// known.
func (a *admission) unmatched(lists map[string]*admitted, complete map[string]bool) (reports []catalog.Report) {
	for _, label := range slices.Sorted(maps.Keys(a.overrides)) {
		o := a.overrides[label]
		mayMatch := func(c catalog.Candidate) bool {
			return !complete[c.Source.Upstream] || lists[c.Source.Upstream].overridden[label]
		}
		if len(o.candidates) == 0 || slices.ContainsFunc(o.candidates, mayMatch) {
			continue
		}
		first, nearest := o.candidates[0], ""
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

// report returns a report about a listed prompt.
func (a *admission) report(
	kind catalog.Kind, finding string, source *catalog.Source, prompt *catalog.Prompt, format string, args ...any,
) catalog.Report {
	// Its key changes with the definition, so that a new definition with the same problem is
	// reported again.
	name := a.exposedName(source, prompt.Name)
	return catalog.Report{
		Kind: kind, Name: name,
		Owners:  []catalog.Owner{source.Owner(prompt.Name)},
		Finding: fmt.Sprintf("%x %s", prompt.Hash, finding),
		Text: fmt.Sprintf("prompt %q of upstream %q (%s) ", name, source.Upstream, source.Place) +
			fmt.Sprintf(format, args...),
	}
}
