package config

import (
	"errors"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// SkillPrefix begins the exposed names of skills, and the patterns that match them.
const SkillPrefix = "skill:"

// IsSkill reports whether a name or a pattern is one of skills, where any are served.
func IsSkill(name string) bool { return strings.HasPrefix(name, SkillPrefix) }

// SkillsMode says whether an upstream's skills are served.
type SkillsMode string

// The values of the skills attribute; the zero value serves none.
const (
	SkillsBeside SkillsMode = "true" // beside the prompts
	SkillsOnly   SkillsMode = "only" // and no prompts
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
	for i := range c.Teams {
		for j := range c.Teams[i].Upstreams {
			if c.Teams[i].Upstreams[j].Skills != "" {
				return true
			}
		}
	}
	return false
}

// separateSkills keeps the patterns of prompts from matching skills, where any are served: what was
// exposed for prompts must expose no skill by accident. It refuses screens that would change what
// the digests of skills are of.
func (d *decoder) separateSkills(cfg *Config) {
	if !cfg.HasSkills() {
		return
	}
	separate := func(rules []Rule) {
		for i := range rules {
			for j := range rules[i].Prompts {
				rules[i].Prompts[j].byKind = true
			}
		}
	}
	separate(cfg.Hides)
	refuseStrip(d.Blocks("gateway"))
	served := map[string]bool{}
	for i := range cfg.Teams {
		team := &cfg.Teams[i]
		separate(team.Hides)
		separate(team.Exposes)
		served[team.Name] = slices.ContainsFunc(team.Upstreams, func(u Upstream) bool { return u.Skills != "" })
	}
	refuseStrip(slices.DeleteFunc(d.Blocks("team"), func(b *hclread.Block) bool { return !served[b.Label()] }))
}

func refuseStrip(outer []*hclread.Block) {
	for _, block := range outer {
		for _, b := range block.Inner("screen") {
			if action, ok := b.Text("action"); ok && action.Value == string(ScreenStrip) {
				b.Error(b.ValueRange("action"), "Skills cannot be stripped", "A skill's files have digests, which strip "+
					"would break; write %q or %q, or serve no skills.", ScreenReject, ScreenWarn)
			}
		}
	}
}
