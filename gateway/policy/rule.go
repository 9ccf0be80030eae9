package policy

import (
	"fmt"

	"github.com/promptweir/promptweir/config"
)

// team is a team that owns upstreams. A team that owns none shows nothing and is only a set of
// people.
type team struct {
	upstreams map[string]config.Place // where each block begins
	hides     []*block
	// The team's rules are those from first, which is its membership, to before end; the others are
	// its expose blocks.
	first, end int
}

// Rule names a block of the configuration that shows prompts or hides them.
type Rule struct {
	// Title is the block's type and label, as they stand in its header.
	Title string
	// Place is where the block begins, as PATH:LINE.
	Place string
}

// rule shows entries of a team: to its members, or to those whom an expose block names.
type rule struct {
	team   string
	expose *block // nil for membership
	place  config.Place
	// membership names the rule that is the team itself.
	membership Rule
}

// named names the rule's block.
func (r *rule) named() *Rule {
	if r.expose == nil {
		return &r.membership
	}
	return &r.expose.named
}

// matches reports whether the rule shows entries of this name at all.
func (r *rule) matches(name string) bool { return r.expose == nil || r.expose.Matches(name) }

// The kinds of blocks.
const (
	kindExpose = "expose"
	kindHide   = "hide"
)

// title is a block's type and label as they stand in its header.
func title(kind string, block *config.Rule) string {
	if block.Label == "" {
		return kind
	}
	return fmt.Sprintf("%s %q", kind, block.Label)
}
