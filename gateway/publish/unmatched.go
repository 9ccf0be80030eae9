package publish

import (
	"fmt"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxNearest bounds the reports of one kind with a suggested name, because the search for a near
// name is slow.
const maxNearest = 10

// Unmatched returns a report for each pattern of an expose or hide block that matches no prompt,
// because such a pattern may be a typo. A pattern is skipped if the list of an upstream that it
// could match is unknown. Unmatched compares each pattern with each name: it is meant for commands
// that check a configuration, and too slow for a serving gateway.
func Unmatched(s *snapshot.Snapshot) (reports []catalog.Report) {
	for i := range s.Config.Teams {
		team := &s.Config.Teams[i]
		u := unmatched{in: s, whose: fmt.Sprintf("team %q", team.Name), upstreams: team.Upstreams, blocks: team.Overrides}
		u.find("hide", team.Hides)
		u.find("expose", team.Exposes)
		reports = append(reports, u.reports...)
	}
	u := unmatched{in: s, whose: anyTeam, upstreams: s.Config.Upstreams()}
	u.find("hide", s.Config.Hides)
	return append(reports, u.reports...)
}

// anyTeam stands for the owner of gateway-wide hide blocks.
const anyTeam = "any team"

// unmatched finds the patterns of a team's blocks that match no prompt of its upstreams.
type unmatched struct {
	in        *snapshot.Snapshot
	whose     string
	upstreams []config.Upstream
	blocks    []config.Override
	reports   []catalog.Report
}

func (u *unmatched) find(kind string, rules []config.Rule) {
	var names []string
	for _, up := range u.upstreams {
		if i, known := u.in.Index(up.Name); known {
			names = append(names, exposedNames(u.in, i)...)
		}
	}
	for i := range rules {
		for _, p := range rules[i].Prompts {
			// A hide pattern such as "*.debug_*" is a precaution against future prompts. If a
			// prompt block gives its prompt the name, unmatchedBlocks reports the missing prompt.
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
		if !p.CanStartWith(source.Exposed(u.in.Config.Gateway.Separator, skill)) {
			continue
		}
		at, known := u.in.Index(u.upstreams[i].Name)
		// A broken file may have the prompt that the pattern names.
		if !known || !u.in.Listed(at) || slices.ContainsFunc(u.in.ProblemsOf(at, u.in.States[at]), files.Problem.IsBroken) {
			return
		}
		owners = append(owners, ownerOf(&u.upstreams[i]))
	}
	if len(owners) == 0 && u.whose != anyTeam { // the configuration's loader warns about such a pattern
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

// ownerOf returns an upstream as the owner in a report that is not about a prompt.
func ownerOf(u *config.Upstream) catalog.Owner {
	return catalog.Owner{Declaration: &catalog.Declaration{Upstream: u.Name, Place: u.Place.String()}}
}

// nearestName suggests the nearest name of an upstream's prompt for a name that matches none.
func nearestName(name string, list *admitted) string {
	escaped := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
	pattern, err := config.ParsePattern(escaped)
	if err != nil {
		return ""
	}
	return suggestion(pattern, list.namesWithoutBlocks())
}

// suggestion returns the end of a sentence about a pattern without matches, or "" if no name is
// similar.
func suggestion(pattern config.Pattern, names []string) string {
	nearest := pattern.Nearest(names)
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf(" (the nearest is %s)", wire.Quote(nearest))
}

// exposedNames returns the exposed names of all prompts in the list of the upstream at index i,
// admitted or not.
func exposedNames(s *snapshot.Snapshot, i int) (names []string) {
	if !s.Listed(i) {
		return nil
	}
	source := &s.Sources[i]
	for _, definition := range s.Definitions(i) {
		prompt, err := catalog.ParseDefinition(definition, source.Skills)
		if err != nil {
			continue
		}
		name := s.ExposedName(source, prompt.Name)
		if block := s.PromptBlock(source, prompt.Name); block != nil && block.Name != "" {
			name = block.Name
		}
		names = append(names, name)
	}
	return names
}

// namesWithoutBlocks returns the exposed names of all prompts in the list, without their prompt
// blocks.
func (l *admitted) namesWithoutBlocks() (names []string) {
	if l == nil {
		return nil
	}
	source := catalog.Source{Prefix: l.rules.prefix, Skills: l.rules.skills}
	for _, d := range l.decisions {
		if d.sent != nil {
			names = append(names, source.Exposed(l.rules.separator, d.sent.Name))
		}
	}
	return names
}
