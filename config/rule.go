package config

import "github.com/promptweir/promptweir/config/internal/hclread"

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
	// Limit is for gets and completions of the prompts that an expose block shows; nil without a limit block.
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
