package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
)

// Trouble is why the prompts of an upstream, or of one of its replicas, are missing or may not be
// up to date.
type Trouble struct {
	Upstream, Team string
	// Place is that of the upstream's block.
	Place string
	// Endpoint is the address of a replica; empty for an upstream as a whole.
	Endpoint string
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
	if t.Endpoint != "" {
		who = fmt.Sprintf("%s (%s), endpoint %s,", t.Upstream, t.Place, t.Endpoint)
	}
	if t.Cause.Problem == "" {
		return who + " " + t.Condition
	}
	return fmt.Sprintf("%s %s: %s", who, t.Condition, t.Cause)
}

// Troubles returns what is wrong with the upstreams, by name. Of one with replicas, each that is in
// trouble is named.
func (s *Snapshot) Troubles() (all []Trouble) {
	for i, state := range s.States {
		u := &s.Upstreams[i]
		if len(state.Endpoints) < 2 {
			all = append(all, troubleOf(u, "", state.Problem, state.Connected, s.Listed(i), state.Tried)...)
			continue
		}
		for _, e := range state.Endpoints {
			all = append(all, troubleOf(u, e.Address, e.Problem, e.Connected, e.Listed, state.Tried)...)
		}
	}
	slices.SortStableFunc(all, func(a, b Trouble) int { return cmp.Compare(a.Upstream, b.Upstream) })
	return all
}

// troubleOf returns the trouble of an upstream or endpoint, if there is any.
func troubleOf(u *config.Upstream, endpoint string, p *upstream.Problem, connected, listed, tried bool) []Trouble {
	t := Trouble{Upstream: u.Name, Team: u.Team, Place: u.Place.String(), Endpoint: endpoint, Listed: listed}
	switch {
	case p == nil && !tried && !connected:
		t.Condition = "is still connecting"
	case p == nil && !tried:
		t.Condition = "is connected, and has not listed its prompts yet"
	case p == nil:
		return nil
	default:
		t.Condition, t.Reason, t.Since, t.Cause = condition(p, connected, listed), p.Reason, p.Since, p.Cause()
	}
	return []Trouble{t}
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
