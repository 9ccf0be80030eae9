package upstream

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// State is what is known of an upstream at one moment. It is immutable.
type State struct {
	// Tried is true once a first attempt to list has succeeded or failed at each endpoint.
	Tried bool
	// Listed is true once a list has been taken from one endpoint. Definitions is the union of the endpoints' last good
	// lists, whether they are up or not: the first endpoint's in its order, then what only the next have. It is the same
	// whoever answered first.
	Listed      bool
	Definitions []jsontext.Value
	// Lists counts the lists that brought something new: it changes whenever Definitions does.
	Lists uint64
	// Connected is true while there is a session with one endpoint.
	Connected bool
	// Revision is the protocol revision of the first endpoint that is connected or, where none is, was; empty before.
	Revision string
	// Problem is what keeps callers from a prompt, or the list from being fresh: the first endpoint's trouble that the
	// others do not make up for. It is nil while each prompt of an endpoint in trouble has another endpoint whose list
	// is fresh, so that with replicas one of them may be down without the upstream being degraded.
	Problem *Problem
	// Differences are the names of prompts whose definitions differ between endpoints, sorted. That is no conflict,
	// for it is how a rolling deploy looks: the first endpoint's definition is listed, calls go to all.
	Differences []string
	// Endpoints is how each endpoint is, in configuration order.
	Endpoints []EndpointState
}

// EndpointState is how one endpoint of an upstream is.
type EndpointState struct {
	// Address is where it is, with everything sensitive masked.
	Address string
	// Connected is true while there is a session with it.
	Connected bool
	// Revision is that of its present or last session; empty before the first.
	Revision string
	// Problem is what keeps its list from being fresh; nil when it is.
	Problem *Problem
}

// Problem is why an upstream, or an endpoint of it, is degraded.
type Problem struct {
	Reason Reason
	// Since is when it began.
	Since time.Time
	// Err is the cause, for logs; it may hold addresses.
	Err error
}

// Degraded is the reason of a list that was refused by a guard or by the server. A list that was not answered, on a
// session that goes on, has the reason of any call.
const Degraded Reason = "list_refused"

// standing is what is known of one endpoint at one moment. It is immutable.
type standing struct {
	EndpointState

	// tried, listed, definitions and lists are what State says, of this endpoint.
	tried, listed bool
	definitions   []jsontext.Value
	lists         uint64
	// offer is what definitions offer. It is kept only where there are other endpoints to compare it with.
	offer offer
}

// update publishes a changed copy of the standing and tells the owner. Called from run's goroutines, one at a time.
func (e *endpoint) update(change func(*standing)) {
	e.mu.Lock()
	next := *e.standing.Load()
	change(&next)
	e.standing.Store(&next)
	e.mu.Unlock()
	e.onChange()
}

// degrade records a problem. One that goes on keeps the time when it began.
func (s *standing) degrade(reason Reason, err error) {
	s.tried = true
	since := time.Now()
	if s.Problem != nil {
		since = s.Problem.Since
	}
	s.Problem = &Problem{Reason: reason, Since: since, Err: err}
}

// fresh reports whether the last good list is the present one.
func (s *standing) fresh() bool { return s.listed && s.Problem == nil }

// offer is a list of prompts by their names.
type offer struct {
	// names are those of the list's definitions, in its order; "" where there is none to be read.
	names []string
	// at is where in the list a name stands first.
	at map[string]int
}

func newOffer(definitions []jsontext.Value) offer {
	o := offer{names: make([]string, len(definitions)), at: make(map[string]int, len(definitions))}
	for i, definition := range definitions {
		if object, err := wire.ParseObject(definition); err == nil {
			o.names[i], _ = object.Text("name")
		}
		if _, ok := o.at[o.names[i]]; !ok {
			o.at[o.names[i]] = i
		}
	}
	return o
}

func (o offer) has(name string) bool {
	_, ok := o.at[name]
	return ok
}

// summarize returns the upstream's state as the endpoints' standings make it. What was merged of their lists stays.
func summarize(before *State, standings []*standing) *State {
	next := &State{
		Tried: true, Definitions: before.Definitions, Lists: before.Lists, Differences: before.Differences,
		Problem: problem(standings), Endpoints: make([]EndpointState, len(standings)),
	}
	for i, s := range standings {
		next.Endpoints[i] = s.EndpointState
		next.Tried = next.Tried && s.tried
		next.Listed = next.Listed || s.listed
		if next.Revision == "" || (s.Connected && !next.Connected) {
			next.Revision = s.Revision
		}
		next.Connected = next.Connected || s.Connected
	}
	return next
}

// problem returns the first endpoint's trouble that no other endpoint makes up for.
func problem(standings []*standing) *Problem {
	fresh := slices.DeleteFunc(slices.Clone(standings), func(s *standing) bool { return !s.fresh() })
	elsewhere := func(name string) bool {
		return slices.ContainsFunc(fresh, func(s *standing) bool { return s.offer.has(name) })
	}
	for _, s := range standings {
		if s.Problem != nil && (len(fresh) == 0 || !all(s.offer.names, elsewhere)) {
			return s.Problem
		}
	}
	return nil
}

// all reports whether the claim holds for each name.
func all(names []string, claim func(string) bool) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !claim(name) })
}

// merged is the union of several lists.
type merged struct {
	definitions []jsontext.Value
	differences []string
}

// merge unites the endpoints' lists. A list's own duplicates stay: they are its owner's to hear of.
func merge(standings []*standing) merged {
	if len(standings) == 1 {
		return merged{definitions: standings[0].definitions}
	}
	var (
		union   []jsontext.Value
		listed  = map[string]jsontext.Value{}
		differs = map[string]bool{}
	)
	for _, s := range standings {
		for i, name := range s.offer.names {
			first, known := listed[name]
			if !known {
				union = append(union, s.definitions[i])
			} else if i == s.offer.at[name] && !sameDefinition(first, s.definitions[i]) {
				differs[name] = true
			}
		}
		for name, i := range s.offer.at {
			if _, known := listed[name]; !known {
				listed[name] = s.definitions[i]
			}
		}
	}
	delete(differs, "") // what has no name cannot be the same prompt
	return merged{union, slices.Sorted(maps.Keys(differs))}
}

// take makes a merged list the state's.
func (s *State) take(m merged) {
	s.Differences = m.differences
	if s.Lists == 0 || !equal(s.Definitions, m.definitions) {
		s.Definitions = m.definitions
		s.Lists++
	}
}

// equal reports whether two lists have the same bytes.
func equal(a, b []jsontext.Value) bool {
	return slices.EqualFunc(a, b, func(a, b jsontext.Value) bool { return bytes.Equal(a, b) })
}

// sameDefinition reports whether two definitions say the same (RFC 8785, but for integers that it would round).
func sameDefinition(a, b jsontext.Value) bool {
	if bytes.Equal(a, b) {
		return true
	}
	a, b = a.Clone(), b.Clone()
	keepIntegers := jsontext.CanonicalizeRawInts(false)
	return a.Canonicalize(keepIntegers) == nil && b.Canonicalize(keepIntegers) == nil && bytes.Equal(a, b)
}

// countLists counts the lists that brought something new, of all endpoints.
func countLists(standings []*standing) (n uint64) {
	for _, s := range standings {
		n += s.lists
	}
	return n
}
