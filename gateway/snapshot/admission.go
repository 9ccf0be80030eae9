package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/screen"
	"github.com/promptweir/promptweir/upstream/wire"
)

// admission decides which definitions of an upstream's list reach the catalog, and in which form:
//
//	definition ─▶ approved by the lock file? ─▶ override by its prompt block ─▶ name ─▶ screens ─▶ catalog
//
// Whatever it leaves out, it reports. It is immutable.
type admission struct {
	cfg *config.Config
	// overrides are by the exposed name that a prompt has without them.
	overrides map[string]override
	teams     map[string]teamRules
	// masks hide each upstream's secrets in reports, which quote definitions.
	masks map[string]config.Mask
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

func newAdmission(cfg *config.Config) *admission {
	a := &admission{
		cfg: cfg, overrides: map[string]override{}, teams: make(map[string]teamRules, len(cfg.Teams)), masks: map[string]config.Mask{},
	}
	for _, u := range cfg.Upstreams() {
		a.masks[u.Name] = u.Mask()
	}
	sources := sourcesOf(cfg)
	for i := range cfg.Teams {
		team := &cfg.Teams[i]
		screens := cfg.ScreensFor(team.Name)
		a.teams[team.Name] = teamRules{cfg.LockFor(team.Name), team.Overrides, screens, screen.New(screens)}
		for j := range team.Overrides {
			label := team.Overrides[j].Prompt
			a.overrides[label] = override{&team.Overrides[j], team.Name, catalog.Candidates(sources, cfg.Gateway.Separator, label)}
		}
	}
	return a
}

// sameTeams returns the teams whose definitions both admissions treat alike: with the same lock, prompt blocks and
// screens at the same places.
func (a *admission) sameTeams(other *admission) map[string]bool {
	same := make(map[string]bool, len(a.teams))
	if a.cfg.Gateway.Separator != other.cfg.Gateway.Separator { // it is part of names in lock, blocks and reports
		return same
	}
	sameLock := slices.Equal(a.cfg.Lock, other.cfg.Lock)
	for name, rules := range a.teams {
		before, known := other.teams[name]
		same[name] = known && rules.lock == before.lock && (sameLock || rules.lock.Mode == config.LockOff) &&
			reflect.DeepEqual(rules.blocks, before.blocks) && reflect.DeepEqual(rules.screens, before.screens)
	}
	return same
}

// admitted is what the admission makes of one upstream's list.
type admitted struct {
	// definitions are the list as it was sent, so that an unchanged one is recognised.
	definitions []jsontext.Value
	prompts     []catalog.Prompt
	reports     []catalog.Report
	// overridden are the labels of the prompt blocks that match a prompt of the list.
	overridden map[string]bool
}

// admits reports whether the list is what the admission makes of the definitions. Lists are compared by identity: a
// connector replaces its list whenever something in it changes.
func (l *admitted) admits(definitions []jsontext.Value) bool {
	if l.overridden == nil || len(l.definitions) != len(definitions) { // never admitted, or another list
		return false
	}
	return len(definitions) == 0 || &l.definitions[0] == &definitions[0]
}

// admit reads one upstream's definitions. It leaves out and reports each that is not a prompt or may not be listed.
func (a *admission) admit(source *catalog.Source, definitions []jsontext.Value) admitted {
	list := admitted{definitions: definitions, prompts: make([]catalog.Prompt, 0, len(definitions)), overridden: map[string]bool{}}
	var nulls nullMembers
	for i, definition := range definitions {
		prompt, err := catalog.ParsePrompt(definition)
		if err != nil {
			list.reports = append(list.reports, unreadable(source, i, err))
			continue
		}
		nulls.add(&prompt)
		if o := a.overrideOf(source, prompt.Name); o.Override != nil {
			list.overridden[o.Prompt] = true
		}
		prompt, kept := a.admitPrompt(source, prompt, &list.reports)
		if kept {
			list.prompts = append(list.prompts, prompt)
		}
	}
	list.reports = append(list.reports, nulls.report(source)...)
	for i := range list.reports {
		list.reports[i].Text = a.masks[source.Upstream].Text(list.reports[i].Text)
	}
	return list
}

// nullMembers counts the prompts of a list with optional members that are null. A serializer that writes null does so in
// every definition, so that one report for each of them would bury all others.
type nullMembers struct {
	prompts      int
	first, place string // the first prompt's name, and its first place
}

func (n *nullMembers) add(prompt *catalog.Prompt) {
	if len(prompt.Nulls) == 0 {
		return
	}
	if n.prompts++; n.prompts == 1 {
		n.first, n.place = prompt.Name, prompt.Nulls[0]
	}
}

func (n *nullMembers) report(source *catalog.Source) []catalog.Report {
	if n.prompts == 0 {
		return nil
	}
	prompts := "1 prompt"
	if n.prompts > 1 {
		prompts = fmt.Sprintf("%d prompts", n.prompts)
	}
	return []catalog.Report{{
		Kind: catalog.NullMembers, Name: source.Upstream,
		Owners: []catalog.Owner{{Upstream: source.Upstream, Place: source.Place}},
		Text: fmt.Sprintf("upstream %q (%s) lists %s with members that are null, which the protocol does not allow; "+
			"the first is %s of prompt %s; they are treated as absent: remove them on the server",
			source.Upstream, source.Place, prompts, n.place, wire.Quote(n.first)),
	}}
}

// admitPrompt returns the prompt as it is to be listed; kept is false where it is left out.
func (a *admission) admitPrompt(source *catalog.Source, prompt catalog.Prompt, reports *[]catalog.Report) (_ catalog.Prompt, kept bool) {
	for _, check := range []func(*catalog.Source, *catalog.Prompt) (catalog.Prompt, []catalog.Report, bool){
		a.checkLock, a.override, a.checkName, a.screen,
	} {
		next, found, kept := check(source, &prompt)
		*reports = append(*reports, found...)
		if !kept {
			return prompt, false
		}
		prompt = next
	}
	return prompt, true
}

// checkLock reports a definition that the lock file does not approve. Whether it is listed depends on the lock's mode.
func (a *admission) checkLock(source *catalog.Source, prompt *catalog.Prompt) (_ catalog.Prompt, drift []catalog.Report, kept bool) {
	lock := a.teams[source.Team].lock
	if lock.Mode == config.LockOff {
		return *prompt, nil, true
	}
	approved, known := a.cfg.Lock.Find(a.exposedName(source, prompt.Name), source.Upstream)
	if known && approved.SHA256 == prompt.Hash {
		return *prompt, nil, true
	}
	problem, outcome := "is not in "+config.LockFile, "it is left out"
	if known {
		problem = "differs from its definition in " + config.LockFile
	}
	if lock.Mode == config.LockWarn {
		outcome = "it is listed all the same"
	}
	return *prompt, []catalog.Report{a.report(catalog.Drift, problem, source, prompt,
		"%s: %s (lock = %q at %s); see the difference with promptweir lock --diff, and approve it with promptweir lock",
		problem, outcome, lock.Mode, lock.Place)}, lock.Mode != config.LockEnforce
}

// override applies the prompt block.
func (a *admission) override(source *catalog.Source, prompt *catalog.Prompt) (catalog.Prompt, []catalog.Report, bool) {
	o := a.overrideOf(source, prompt.Name)
	if o.Override == nil {
		return *prompt, nil, true
	}
	overridden, err := prompt.Override(o.change())
	if err != nil {
		return *prompt, []catalog.Report{a.report(catalog.Misfit, err.Error(), source, prompt,
			"does not fit its prompt block (%s), so it is left out: %v; correct the block", o.Place, err)}, false
	}
	return overridden, nil, true
}

// checkName leaves out a prompt whose exposed name has characters that people cannot see: it could pass for another team's.
func (a *admission) checkName(source *catalog.Source, prompt *catalog.Prompt) (catalog.Prompt, []catalog.Report, bool) {
	name := a.clientsName(source, prompt)
	if !strings.ContainsFunc(name, config.IsInvisible) {
		return *prompt, nil, true
	}
	return *prompt, []catalog.Report{a.report(catalog.InvisibleName, "", source, prompt,
		"is left out because its name, %+q, has characters that people cannot see; rename it on the server, or in a prompt block", name)}, false
}

// screen checks a definition, as clients are to see it, against the screen blocks.
func (a *admission) screen(source *catalog.Source, prompt *catalog.Prompt) (catalog.Prompt, []catalog.Report, bool) {
	outcome := a.teams[source.Team].screen.Definition(prompt.Definition, a.clientsName(source, prompt))
	if f := outcome.Rejected; f != nil {
		return *prompt, []catalog.Report{a.report(catalog.Screened, f.String(), source, prompt,
			"is left out because its definition has %s, %s; correct it on the server", f, f.Block.Place)}, false
	}
	if len(outcome.Noted) == 0 {
		return *prompt, nil, true
	}
	first := outcome.Noted[0]
	reports := []catalog.Report{a.report(catalog.Screened, first.String(), source, prompt,
		"has %s in its definition, %s (action = %q; findings: %d)", first, first.Block.Place, first.Block.Action, len(outcome.Noted))}
	screened, err := prompt.With(outcome.JSON)
	if err != nil {
		return *prompt, reports, false // unreachable: a screen only changes the content of strings
	}
	return screened, reports, true
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

// change returns the block as the catalog knows it.
func (o override) change() *catalog.Override {
	values := func(configured []config.ArgumentOverride) (list []catalog.ArgumentValue) {
		for _, v := range configured {
			list = append(list, catalog.ArgumentValue(v))
		}
		return list
	}
	return &catalog.Override{
		Name: o.Name, Title: o.Title, Description: o.Description,
		Arguments: catalog.ArgumentOverrides{Fixed: values(o.Fixed), Defaults: values(o.Defaults)},
	}
}

// exposedName returns the name that clients would see if no prompt block gave another.
func (a *admission) exposedName(source *catalog.Source, own string) string {
	return catalog.ExposedName(source.Prefix, a.cfg.Gateway.Separator, own)
}

// clientsName returns the name that clients see.
func (a *admission) clientsName(source *catalog.Source, prompt *catalog.Prompt) string {
	return cmp.Or(prompt.Exposed, a.exposedName(source, prompt.Name))
}

// unmatched reports the prompt blocks that match no prompt, once every upstream that could offer one is listed. The
// lists are by upstream; of one that is not in complete, not all prompts are known.
func (a *admission) unmatched(lists map[string]admitted, complete map[string]bool) (reports []catalog.Report) {
	for _, label := range slices.Sorted(maps.Keys(a.overrides)) {
		o := a.overrides[label]
		mayMatch := func(c catalog.Candidate) bool {
			return !complete[c.Source.Upstream] || lists[c.Source.Upstream].overridden[label]
		}
		if len(o.candidates) == 0 || slices.ContainsFunc(o.candidates, mayMatch) {
			continue
		}
		first := o.candidates[0]
		reports = append(reports, catalog.Report{
			Kind: catalog.Unmatched, Name: label,
			Owners: []catalog.Owner{{Upstream: first.Source.Upstream, Name: first.Own, Place: first.Source.Place}},
			Text: fmt.Sprintf("the prompt block %s (%s) has no effect: upstream %q (%s) offers no such prompt; correct or remove it",
				wire.Quote(label), o.Place, first.Source.Upstream, first.Source.Place),
		})
	}
	return reports
}

func unreadable(source *catalog.Source, i int, err error) catalog.Report {
	return catalog.Report{
		Kind: catalog.Unreadable, Name: fmt.Sprintf("%s[%d]", source.Upstream, i),
		Owners: []catalog.Owner{{Upstream: source.Upstream, Place: source.Place}},
		Text: fmt.Sprintf("upstream %q (%s) lists an invalid prompt, which is left out; correct it on the server: %v",
			source.Upstream, source.Place, err),
	}
}

// report returns a report about a listed prompt. Its key changes with the definition, so that a new definition with the
// same problem is reported again.
func (a *admission) report(
	kind catalog.Kind, finding string, source *catalog.Source, prompt *catalog.Prompt, format string, args ...any,
) catalog.Report {
	name := a.exposedName(source, prompt.Name)
	return catalog.Report{
		Kind: kind, Name: name,
		Owners:  []catalog.Owner{{Upstream: source.Upstream, Name: prompt.Name, Place: source.Place}},
		Finding: fmt.Sprintf("%x %s", prompt.Hash, finding),
		Text: fmt.Sprintf("prompt %q of upstream %q (%s) ", name, source.Upstream, source.Place) +
			fmt.Sprintf(format, args...),
	}
}
