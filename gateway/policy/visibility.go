package policy

import (
	"fmt"
	"slices"

	"github.com/promptweir/promptweir/config"
)

// Visibility is what a policy decides about one entry, whoever is calling: the rules that show it.
// It stays valid until the entry or the policy changes. A nil *Visibility, and one without rules,
// shows the entry to nobody.
type Visibility struct {
	policy *Policy
	rules  []int32
	// hiddenBy is the block that hides the entry from everybody; nil where none does.
	hiddenBy *block
	// conditional is nil if no condition reads the principal.
	conditional *conditional
}

// conditional is what remains to be decided for each audience.
type conditional struct {
	hides []*gate
	// shows has a gate for each of the rules: nil if the rule always shows the entry.
	shows []*gate
}

// Equal reports whether both show entries to the same audiences, and by the same rules. Where
// conditions read the principal, it may report false though they do.
func (v *Visibility) Equal(other *Visibility) bool {
	if v == nil || other == nil {
		return v == other
	}
	return v.policy == other.policy && v.hiddenBy == other.hiddenBy && v.conditional == nil && other.conditional == nil &&
		slices.Equal(v.rules, other.rules)
}

// add adds a rule with the gate that decides whether it shows the entry, nil if it always does.
func (v *Visibility) add(id int, open *gate) {
	v.rules = append(v.rules, int32(id))
	if open != nil && v.conditional == nil {
		v.conditional = &conditional{}
	}
	if v.conditional != nil {
		// The rules before the first gate have none yet.
		missing := len(v.rules) - 1 - len(v.conditional.shows)
		v.conditional.shows = append(append(v.conditional.shows, make([]*gate, missing)...), open)
	}
}

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
