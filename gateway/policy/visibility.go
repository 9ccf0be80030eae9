package policy

import "slices"

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
