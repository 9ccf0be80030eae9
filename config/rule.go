package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Rule is an expose or a hide block.
type Rule struct {
	// Label says why the block is there. Labels may repeat.
	Label string
	// Prompts are compared with the names that clients see.
	Prompts []Pattern
	// To is who an expose block shows the prompts to; empty in a hide block, which is for everyone.
	To []Selector
	// When narrows the rule; nil if it holds always.
	When *Condition
	// Limit is for gets and completions of the prompts that an expose block shows; nil without a
	// limit block.
	Limit *Limit
	Place Place
}

// Matches reports whether one of the rule's patterns matches an exposed name.
func (r *Rule) Matches(name string) bool { return matchesAny(r.Prompts, name) }

func exposeSchema() hclread.Schema {
	return hclread.Schema{
		Plain:  []string{"prompts", "to", "when"},
		Blocks: []hclread.BlockSchema{{Type: "limit", Schema: limitSchema()}},
	}
}

func decodeExpose(b *hclread.Block, teams teamNames) Rule {
	return Rule{
		Label:   b.Label(),
		Place:   placeOf(b.Range()),
		Prompts: hclread.RequiredList(b, "prompts", parsePattern),
		To:      hclread.RequiredList(b, "to", audienceParser(teams)),
		When:    decodeWhen(b),
		Limit:   decodePromptLimit(b),
	}
}

// audienceParser returns a parse function for selectors that may name one of the teams.
func audienceParser(teams teamNames) func(string) (Selector, error) {
	return func(s string) (Selector, error) {
		sel, err := parseSelector(s)
		if err == nil && sel.Kind == TeamMembers {
			err = teams.check(sel.Name)
		}
		return sel, err
	}
}

func hideSchema() hclread.Schema {
	return hclread.Schema{Plain: []string{"prompts", "when"}}
}

func decodeHide(b *hclread.Block) Rule {
	return Rule{Label: b.Label(), Place: placeOf(b.Range()), Prompts: hclread.RequiredList(b, "prompts", parsePattern), When: decodeWhen(b)}
}

// SelectorKind is what a [Selector] compares.
type SelectorKind string

// The kinds of selector, as they are written before the colon.
const (
	User        SelectorKind = "user"
	Group       SelectorKind = "group"
	TeamMembers SelectorKind = "team"
	Anybody     SelectorKind = "*"
)

// Selector is one element of members or to: "user:alice", "group:payments", "team:search" or "*".
type Selector struct {
	Kind SelectorKind
	// Name is what follows the colon; empty for [Anybody].
	Name string
}

// String writes a selector as it is written in the configuration.
func (s Selector) String() string {
	if s.Kind == Anybody {
		return string(Anybody)
	}
	return string(s.Kind) + ":" + s.Name
}

// ParseSelector reads "user:NAME", "group:NAME", "team:NAME" or "*". It does not check whether the
// team exists.
func ParseSelector(s string) (Selector, error) {
	sel, err := parseSelector(s)
	if err != nil {
		return Selector{}, fmt.Errorf("selector %q %w", s, err)
	}
	return sel, nil
}

// parseSelector leaves the selector out of its errors, since the caller knows whether it may be
// shown.
func parseSelector(s string) (Selector, error) {
	if s == string(Anybody) {
		return Selector{Kind: Anybody}, nil
	}
	// The first colon ends the kind: subjects and groups may contain further ones.
	kind, name, found := strings.Cut(s, ":")
	switch sel := (Selector{SelectorKind(kind), name}); {
	case !found || sel.Kind != User && sel.Kind != Group && sel.Kind != TeamMembers:
		return Selector{}, errors.New(`selects no one; write "user:NAME", "group:NAME", "team:NAME" or "*"`)
	case !isPrintable(name):
		return Selector{}, errors.New("needs a name without spaces after the colon")
	case strings.ContainsFunc(name, IsInvisible):
		return Selector{}, errors.New("contains a character that people cannot see; remove it")
	default:
		return sel, nil
	}
}
