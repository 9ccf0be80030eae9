package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxUnmatched bounds the reports about one team's patterns, besides one that counts the
	// others, and maxNearest those that suggest a name, since looking for it takes long.
	maxUnmatched = 50
	maxNearest   = 10
)

// unmatched finds the patterns of expose and hide blocks that match no prompt: a typo in one
// exposes nothing, or hides nothing, and nobody would hear of it. It is for one goroutine at a
// time, that of [Publisher.Run] once it runs.
type unmatched struct {
	separator string
	// blocks are those of each team, and last the hide blocks of all teams.
	blocks []*patternsOf
}

// anyTeam is whose the hide blocks of all teams are.
const anyTeam = "any team"

// patternsOf are the patterns of a team's blocks, and the upstreams whose prompts they are about.
type patternsOf struct {
	whose     string
	patterns  []rulePattern
	upstreams []config.Upstream
	// matched is what the list of an upstream matched, by its label.
	matched map[string]matched
}

// rulePattern is a pattern with the block that it is in.
type rulePattern struct {
	config.Pattern

	// block says which one that is, with its place.
	block string
	place config.Place
	// names is set where the pattern matches the name that a prompt block gives. If there is no
	// such prompt, the block has a report of its own.
	names bool
}

// matched says which patterns, by their indexes, match a prompt of a list.
type matched struct {
	list  *admitted
	found []bool
}

func newUnmatched(cfg *config.Config) *unmatched {
	u := &unmatched{separator: cfg.Gateway.Separator}
	add := func(whose string, patterns []rulePattern, upstreams []config.Upstream) {
		u.blocks = append(u.blocks, &patternsOf{whose, patterns, upstreams, map[string]matched{}})
	}
	for i := range cfg.Teams {
		team := &cfg.Teams[i]
		patterns := append(patternsIn("hide", team.Hides), patternsIn("expose", team.Exposes)...)
		for j := range patterns {
			p := &patterns[j]
			p.names = slices.ContainsFunc(team.Overrides, func(o config.Override) bool {
				return o.Name != "" && p.Match(o.Name)
			})
		}
		add(fmt.Sprintf("team %q", team.Name), patterns, team.Upstreams)
	}
	add(anyTeam, patternsIn("hide", cfg.Hides), cfg.Upstreams())
	return u
}

// patternsIn returns the patterns of blocks of a kind. It leaves out those of hide blocks that
// begin with a star: they are a precaution against prompts that may come, like "*.debug_*".
func patternsIn(kind string, rules []config.Rule) (patterns []rulePattern) {
	for i := range rules {
		title := blockTitle(kind, &rules[i])
		for _, p := range rules[i].Prompts {
			if kind != "hide" || !strings.HasPrefix(p.String(), "*") {
				patterns = append(patterns, rulePattern{Pattern: p, block: title, place: rules[i].Place})
			}
		}
	}
	return patterns
}

func blockTitle(kind string, rule *config.Rule) string {
	title := rule.Title(kind)
	if rule.Limit != nil {
		title += " with its limit"
	}
	return fmt.Sprintf("%s (%s)", title, rule.Place)
}

// inherit adopts what lists matched under an earlier generation with the same rules.
func (u *unmatched) inherit(before *unmatched) {
	for i, of := range before.blocks {
		u.blocks[i].matched = of.matched
	}
}

// reports returns a report for each pattern that certainly matches nothing: no prompt that is
// listed, while the lists of all upstreams whose prompts it could match are known. Both maps are by
// label.
func (u *unmatched) reports(
	lists map[string]*admitted, complete map[string]bool,
) (reports []catalog.Report) {
	for _, of := range u.blocks {
		reports = append(reports, u.reportsOf(of, lists, complete)...)
	}
	return reports
}

// matchedIn returns which of the patterns match a prompt of an upstream's list.
func (of *patternsOf) matchedIn(label string, list *admitted) []bool {
	if m, known := of.matched[label]; known && m.list == list {
		return m.found
	}
	found, left := make([]bool, len(of.patterns)), len(of.patterns)
	of.matched[label] = matched{list, found}
	for name := range list.exposedNames {
		for i := range of.patterns {
			if !found[i] && of.patterns[i].Match(name) {
				found[i] = true
				left--
			}
		}
		if left == 0 {
			break
		}
	}
	return found
}

// reportsOf reports the patterns of a team, or of the gateway.
func (u *unmatched) reportsOf(
	of *patternsOf, lists map[string]*admitted, complete map[string]bool,
) (reports []catalog.Report) {
	found := make([]bool, len(of.patterns))
	for _, up := range of.upstreams {
		for i, isMatched := range of.matchedIn(up.Name, lists[up.Name]) {
			found[i] = found[i] || isMatched
		}
	}
	more := 0
	for i, pattern := range of.patterns {
		if found[i] || pattern.names {
			continue
		}
		candidates := u.candidates(of, pattern)
		if slices.ContainsFunc(candidates, func(up config.Upstream) bool { return !complete[up.Name] }) ||
			len(candidates) == 0 && of.whose != anyTeam { // which is a warning when the configuration is loaded
			continue
		}
		if len(reports) == maxUnmatched {
			more++
			continue
		}
		nearest := ""
		if len(reports) < maxNearest {
			nearest = suggestion(pattern.Pattern, namesOf(of.upstreams, lists))
		}
		reports = append(reports, unmatchedReport(of, pattern, candidates, nearest))
	}
	if more > 0 {
		reports = append(reports, catalog.Report{
			Kind: catalog.Unmatched, Name: of.whose, Owners: reports[0].Owners,
			Text: fmt.Sprintf("%d more patterns match no prompt of %s; correct or remove them", more, of.whose),
		})
	}
	return reports
}

// candidates returns the upstreams whose prompts a pattern could match.
func (u *unmatched) candidates(of *patternsOf, pattern rulePattern) (candidates []config.Upstream) {
	for _, up := range of.upstreams {
		source, kind := catalog.Source{Prefix: up.Prefix, Skills: up.Skills != ""}, ""
		if source.Skills && config.IsSkill(pattern.String()) {
			kind = config.SkillPrefix
		}
		if pattern.CanStartWith(source.Exposed(u.separator, kind)) {
			candidates = append(candidates, up)
		}
	}
	return candidates
}

// ownerOf returns an upstream as what a report is about that concerns no prompt of it.
func ownerOf(u *config.Upstream) catalog.Owner {
	return catalog.Owner{Declaration: &catalog.Declaration{Upstream: u.Name, Place: u.Place.String()}}
}

func unmatchedReport(of *patternsOf, pattern rulePattern, candidates []config.Upstream, nearest string) catalog.Report {
	var owners []catalog.Owner
	if len(candidates) > 0 {
		owners = []catalog.Owner{ownerOf(&candidates[0])}
	}
	return catalog.Report{
		Kind: catalog.Unmatched, Name: pattern.String(), Owners: owners, Finding: of.whose, Block: pattern.place.String(),
		Text: fmt.Sprintf("the pattern %s of %s matches no prompt of %s%s: correct or remove it",
			wire.Quote(pattern.String()), pattern.block, of.whose, nearest),
	}
}

// nearestName suggests a name that an upstream has instead of an exact one that it does not have.
func nearestName(name string, list *admitted) string {
	escaped := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
	pattern, err := config.ParsePattern(escaped)
	if err != nil {
		return ""
	}
	return suggestion(pattern, slices.Collect(list.namesWithoutBlocks))
}

// suggestion goes into a sentence about a pattern that matches none of the names; empty if none is
// near.
func suggestion(pattern config.Pattern, names []string) string {
	nearest := pattern.Nearest(names)
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf(" (the nearest is %s)", wire.Quote(nearest))
}

// namesOf returns the exposed names of all prompts that upstreams list.
func namesOf(upstreams []config.Upstream, lists map[string]*admitted) (names []string) {
	for _, up := range upstreams {
		names = slices.AppendSeq(names, lists[up.Name].exposedNames)
	}
	return names
}

// exposedNames yields the names of all prompts in the list as clients would see them, admitted or
// not.
func (l *admitted) exposedNames(yield func(string) bool) {
	l.names(yield, func(j *judged) string {
		if j.rules.block != nil {
			return j.rules.block.Name
		}
		return ""
	})
}

// namesWithoutBlocks yields the names that prompt blocks stand for.
func (l *admitted) namesWithoutBlocks(yield func(string) bool) {
	l.names(yield, func(*judged) string { return "" })
}

// names yields the names that rename gives, or else those that follow from the upstream's own. It
// reports whether all were wanted.
func (l *admitted) names(yield func(string) bool, rename func(*judged) string) bool {
	if l == nil {
		return true
	}
	for _, part := range l.parts {
		if !part.names(yield, rename) {
			return false
		}
	}
	source := catalog.Source{Prefix: l.rules.prefix, Skills: l.rules.skills}
	for _, j := range l.judged {
		if j.sent == nil {
			continue
		}
		if !yield(cmp.Or(rename(j), source.Exposed(l.rules.separator, j.sent.Name))) {
			return false
		}
	}
	return true
}
