package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/promptweir/promptweir/upstream"
)

// Trouble is why the prompts of an upstream are missing or may not be up to date.
type Trouble struct {
	Upstream, Team string
	// Place is that of the upstream's block.
	Place string
	// Condition follows the name in a sentence: "is down".
	Condition string
	// Reason is empty while the upstream is still connecting; then Since is the zero time.
	Reason upstream.Reason
	Since  time.Time
	// Listed is true where an earlier list is used meanwhile.
	Listed bool
	// Cause holds nothing secret, but is for operators only.
	Cause upstream.Cause
}

// String writes a trouble as one line: what, where, why and what to do.
func (t Trouble) String() string {
	who := fmt.Sprintf("%s (%s)", t.Upstream, t.Place)
	if t.Cause.Problem == "" {
		return who + " " + t.Condition
	}
	return fmt.Sprintf("%s %s: %s", who, t.Condition, t.Cause)
}

// Troubles returns what is wrong with the upstreams, by name.
func (s *Snapshot) Troubles() (all []Trouble) {
	for i, state := range s.States {
		u := &s.Upstreams[i]
		t := Trouble{Upstream: u.Name, Team: u.Team, Place: u.Place.String(), Listed: s.Listed(i)}
		switch p := state.Problem; {
		case p != nil:
			t.Condition, t.Reason, t.Since, t.Cause = condition(p, state.Connected, t.Listed), p.Reason, p.Since, p.Cause()
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

// condition describes a problem.
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
