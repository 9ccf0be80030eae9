package snapshot

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/promptweir/promptweir/upstream"
)

// Trouble explains why an upstream's prompts are missing or may be outdated.
type Trouble struct {
	Upstream, Team string
	// Place is the location of the upstream's block.
	Place string
	// Condition is a predicate for the upstream's name, such as "is down".
	Condition string
	// Listed is true if the gateway has an admitted list of the upstream, current or earlier, see
	// [Snapshot.Listed].
	Listed bool
	// Problem is nil while the upstream is still connecting. Its cause contains no secrets, but is
	// only for operators.
	Problem *upstream.Problem
}

// String returns one line with the upstream, its place, the cause and the remedy.
func (t Trouble) String() string {
	who := fmt.Sprintf("%s (%s)", t.Upstream, t.Place)
	if t.Problem == nil {
		return who + " " + t.Condition
	}
	return fmt.Sprintf("%s %s: %s", who, t.Condition, t.Problem.Cause())
}

// Troubles returns a Trouble for each upstream with a problem or without a first answer, sorted by
// name.
func (s *Snapshot) Troubles() (all []Trouble) {
	for i, state := range s.States {
		u := &s.Upstreams[i]
		t := Trouble{Upstream: u.Name, Team: u.Team, Place: u.Place.String(), Listed: s.Listed(i), Problem: state.Problem}
		switch {
		case t.Problem != nil:
			t.Condition = condition(t.Problem, state.Connected, t.Listed)
		case state.Tried:
			continue
		case state.Connected:
			t.Condition = "is connected, and has not listed its prompts yet"
		default:
			t.Condition = "is still connecting"
		}
		all = append(all, t)
	}
	slices.SortStableFunc(all, func(a, b Trouble) int { return cmp.Compare(a.Upstream, b.Upstream) })
	return all
}

// condition returns the predicate of [Trouble.Condition] for a problem.
func condition(p *upstream.Problem, connected, listed bool) string {
	switch {
	case p.Reason == upstream.InvalidFile:
		return "has files that are broken"
	case p.Failing:
		return "is connected, but gets from it fail"
	case p.Reason == upstream.Denied && !connected:
		return "denies access"
	case !connected && listed:
		return "is down, and its last list is used"
	case !connected:
		return "is down"
	case listed:
		return "is connected, but its last list is used"
	}
	return "is connected, but its list cannot be used"
}
