package config

import (
	"errors"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// SkillPrefix begins the exposed names of skills, and the patterns that match them.
const SkillPrefix = "skill:"

// IsSkill reports whether a name or a pattern begins with [SkillPrefix].
func IsSkill(name string) bool { return strings.HasPrefix(name, SkillPrefix) }

// SkillsMode decides whether an upstream's skills are served.
type SkillsMode string

// The values of the skills attribute; the zero value serves no skills.
const (
	SkillsBeside SkillsMode = "true" // skills and prompts
	SkillsOnly   SkillsMode = "only" // skills without prompts
)

func parseSkills(s string) (SkillsMode, error) {
	switch mode := SkillsMode(s); mode {
	case SkillsBeside, SkillsOnly:
		return mode, nil
	case "false":
		return "", nil
	}
	return "", errors.New(`must be true, false or "only"`)
}

// HasSkills reports whether any upstream's skills are served.
func (c *Config) HasSkills() bool {
	return slices.ContainsFunc(c.Teams, func(t Team) bool { return slices.ContainsFunc(t.Upstreams, hasSkills) })
}

func hasSkills(u Upstream) bool { return u.Skills != "" }

// separateSkills sets [Pattern.byKind] in all rules if any upstream serves skills: an expose block that was
// written for prompts must not expose skills. It also reports screens that would break the digests of skills.
func (d *decoder) separateSkills(cfg *Config) {
	if !cfg.HasSkills() {
		return
	}
	for _, rule := range cfg.rules() {
		for i := range rule.Prompts {
			rule.Prompts[i].byKind = true
		}
	}
	d.refuseStrip(cfg.Teams)
}

// refuseStrip reports the strip action in the screens of a team with skills. If a screen of the gateway strips, it
// reports the skills attribute instead: a team's file must not cause an error in the platform's file.
func (d *decoder) refuseStrip(teams []Team) {
	stripping := func(outer *hclread.Block) []*hclread.Block {
		return slices.DeleteFunc(outer.Inner("screen"), func(b *hclread.Block) bool {
			action, _ := b.Text("action")
			return action.Value != string(ScreenStrip)
		})
	}
	const summary = "Skills cannot be stripped"
	isStripped := slices.ContainsFunc(d.Blocks("gateway"), func(b *hclread.Block) bool { return len(stripping(b)) > 0 })
	for i, team := range d.Blocks("team") {
		if !slices.ContainsFunc(teams[i].Upstreams, hasSkills) {
			continue
		}
		for _, b := range stripping(team) {
			b.Error(b.ValueRange("action"), summary,
				"A skill's files have digests, which strip would break; write %q or %q, or serve no skills.", ScreenReject, ScreenWarn)
		}
		for j, b := range team.Inner("upstream") {
			if isStripped && hasSkills(teams[i].Upstreams[j]) {
				b.Error(b.ValueRange("skills"), summary, "A skill's files have digests, which a screen of the gateway with "+
					"action = %q would break; remove skills, or ask the platform team to write %q or %q there.", ScreenStrip, ScreenReject, ScreenWarn)
			}
		}
	}
}
