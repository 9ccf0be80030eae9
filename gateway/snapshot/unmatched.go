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

// maxNearest bounds the reports of one kind that suggest a name, since looking for it takes long.
const maxNearest = 10

// Unmatched returns a report for each pattern of an expose or hide block that matches no prompt,
// while the lists of all upstreams whose prompts it could match are known: a typo exposes nothing,
// or hides nothing, and nobody would hear of it. Each pattern is compared with each name, which is
// for commands that check a configuration, and not for a gateway that serves.
func Unmatched(s *Snapshot) (reports []catalog.Report) {
	for i := range s.Config.Teams {
		team := &s.Config.Teams[i]
		u := unmatched{snapshot: s, whose: fmt.Sprintf("team %q", team.Name), upstreams: team.Upstreams, blocks: team.Overrides}
		u.find("hide", team.Hides)
		u.find("expose", team.Exposes)
		reports = append(reports, u.reports...)
	}
	u := unmatched{snapshot: s, whose: anyTeam, upstreams: s.Config.Upstreams()}
	u.find("hide", s.Config.Hides)
	return append(reports, u.reports...)
}

// anyTeam is whose the hide blocks of all teams are.
const anyTeam = "any team"

// unmatched finds the patterns of a team's blocks that match no prompt of its upstreams.
type unmatched struct {
	snapshot  *Snapshot
	whose     string
	upstreams []config.Upstream
	blocks    []config.Override
	reports   []catalog.Report
}

func (u *unmatched) find(kind string, rules []config.Rule) {
	var names []string
	for _, up := range u.upstreams {
		if i, known := u.snapshot.Index(up.Name); known {
			names = slices.AppendSeq(names, u.snapshot.lists[i].exposedNames)
		}
	}
	for i := range rules {
		for _, p := range rules[i].Prompts {
			// "*.debug_*" is a precaution against prompts that may come. Where a prompt block gives the
			// name, and there is no such prompt, the block has a report of its own.
			isPrecaution := kind == "hide" && strings.HasPrefix(p.String(), "*")
			isGiven := slices.ContainsFunc(u.blocks, func(o config.Override) bool { return o.Name != "" && p.Match(o.Name) })
			if !isPrecaution && !isGiven && !slices.ContainsFunc(names, p.Match) {
				u.report(kind, &rules[i], p, names)
			}
		}
	}
}

func (u *unmatched) report(kind string, rule *config.Rule, p config.Pattern, names []string) {
	var owners []catalog.Owner
	for i := range u.upstreams {
		source, skill := catalog.Source{Prefix: u.upstreams[i].Prefix, Skills: u.upstreams[i].Skills != ""}, ""
		if source.Skills && config.IsSkill(p.String()) {
			skill = config.SkillPrefix
		}
		if !p.CanStartWith(source.Exposed(u.snapshot.Config.Gateway.Separator, skill)) {
			continue
		}
		if at, known := u.snapshot.Index(u.upstreams[i].Name); !known || !u.snapshot.Listed(at) {
			return
		}
		owners = append(owners, ownerOf(&u.upstreams[i]))
	}
	if len(owners) == 0 && u.whose != anyTeam { // which is a warning when the configuration is loaded
		return
	}
	nearest, title := "", rule.Title(kind)
	if len(u.reports) < maxNearest {
		nearest = suggestion(p, names)
	}
	if rule.Limit != nil {
		title += " with its limit"
	}
	u.reports = append(u.reports, catalog.Report{
		Kind: catalog.Unmatched, Name: p.String(), Owners: owners[:min(len(owners), 1)], Finding: u.whose, Block: rule.Place.String(),
		Text: fmt.Sprintf("the pattern %s of %s (%s) matches no prompt of %s%s: correct or remove it",
			wire.Quote(p.String()), title, rule.Place, u.whose, nearest),
	})
}

// ownerOf returns an upstream as what a report is about that concerns no prompt of it.
func ownerOf(u *config.Upstream) catalog.Owner {
	return catalog.Owner{Declaration: &catalog.Declaration{Upstream: u.Name, Place: u.Place.String()}}
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

// names yields the names that rename returns, or else those that follow from the upstream's own.
func (l *admitted) names(yield func(string) bool, rename func(*judged) string) {
	if l == nil {
		return
	}
	source := catalog.Source{Prefix: l.rules.prefix, Skills: l.rules.skills}
	for _, j := range l.judged {
		if j.sent == nil {
			continue
		}
		if !yield(cmp.Or(rename(j), source.Exposed(l.rules.separator, j.sent.Name))) {
			return
		}
	}
}
