package config

import (
	"fmt"
	"slices"
	"strings"
)

// warnIdle points at what is certain to match no prompt of a team, whatever its servers offer: a typo in a hide
// block shows the prompts that it was to hide. It is for a team without mistakes.
func (l *loader) warnIdle(f fields, t Team) {
	if len(t.Upstreams) == 0 && len(t.Exposes)+len(t.Hides) > 0 {
		l.warning(f.block.DefRange(), "Rules without prompts",
			"The expose and hide blocks of team %q are about the prompts of its own upstreams, and it has none; add an upstream or remove them.", t.Name)
		return
	}
	starts := l.starts(t)
	for i, b := range f.inner("expose") {
		b.warnIdlePatterns(t.Exposes[i], starts, t.Overrides)
	}
	for i, b := range f.inner("hide") {
		b.warnIdlePatterns(t.Hides[i], starts, t.Overrides)
	}
}

// starts returns what the exposed names of a team start with: prefix and separator of each upstream.
func (l *loader) starts(t Team) []string {
	var starts []string
	for i := range t.Upstreams {
		start := t.Upstreams[i].Prefix
		if start != "" {
			start += l.separator
		}
		if !slices.Contains(starts, start) {
			starts = append(starts, start)
		}
	}
	return starts
}

func (f fields) warnIdlePatterns(r Rule, starts []string, shapes []Override) {
	for i, p := range r.Prompts {
		renamed := slices.ContainsFunc(shapes, func(s Override) bool { return s.Name != "" && p.Match(s.Name) })
		if !renamed && !slices.ContainsFunc(starts, p.mayStart) {
			f.warning(f.elementRange("prompts", i), "Pattern without prompts",
				"%q matches nothing, because all names of the team's prompts start with %s; correct or remove it.", p, alternatives(starts))
		}
	}
}

// mayStart reports whether the pattern can match a name that starts like this.
func (p Pattern) mayStart(start string) bool {
	literal, whole := p.literal()
	return strings.HasPrefix(literal, start) || !whole && strings.HasPrefix(start, literal)
}

// literal returns what every name that the pattern matches starts with, and whether that is the whole name.
func (p Pattern) literal() (start string, whole bool) {
	var out strings.Builder
	escaped := false
	for _, r := range p.text {
		switch {
		case escaped:
			escaped = false
		case r == '\\':
			escaped = true
			continue
		case strings.ContainsRune("*?[", r):
			return out.String(), false
		}
		out.WriteRune(r)
	}
	return out.String(), true
}

// alternatives lists words for a sentence.
func alternatives(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(quoted, " or ")
}
