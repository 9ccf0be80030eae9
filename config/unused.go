package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// warnUnused reports patterns that cannot match any of a team's prompts, whatever its servers offer: a typo in a hide block
// shows the prompts that it was meant to hide. Call it for a team without mistakes.
func warnUnused(b *hclread.Block, t Team, separator string) {
	if len(t.Upstreams) == 0 && len(t.Exposes)+len(t.Hides) > 0 {
		b.Warning(b.Range(), "Rules without prompts",
			"The expose and hide blocks of team %q apply to the prompts of its own upstreams, and it has none; add an upstream or remove the blocks.", t.Name)
		return
	}
	starts := namesStartWith(t, separator)
	for i, inner := range b.Inner("expose") {
		warnUnusedPatterns(inner, t.Exposes[i], starts, t.Overrides)
	}
	for i, inner := range b.Inner("hide") {
		warnUnusedPatterns(inner, t.Hides[i], starts, t.Overrides)
	}
}

// namesStartWith returns what the exposed names of a team can start with: prefix and separator of each upstream.
func namesStartWith(t Team, separator string) []string {
	var starts []string
	for i := range t.Upstreams {
		start := t.Upstreams[i].Prefix
		if start != "" {
			start += separator
		}
		if !slices.Contains(starts, start) {
			starts = append(starts, start)
		}
	}
	return starts
}

// warnUnusedPatterns compares the patterns of a rule with the names that the team can have.
func warnUnusedPatterns(b *hclread.Block, r Rule, starts []string, overrides []Override) {
	for i, p := range r.Prompts {
		isNewName := slices.ContainsFunc(overrides, func(o Override) bool { return o.Name != "" && p.Match(o.Name) })
		if !isNewName && !slices.ContainsFunc(starts, p.CanStartWith) {
			b.Warning(b.ElementRange("prompts", i), "Pattern matches nothing",
				"%q matches nothing, because the names of all the team's prompts start with %s; correct or remove it.", p, alternatives(starts))
		}
	}
}

// alternatives lists words for a sentence.
func alternatives(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(quoted, " or ")
}
