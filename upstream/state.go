package upstream

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/sony/gobreaker/v2"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/wire"
)

// State is what is known of an upstream at one moment. It is immutable.
type State struct {
	// Tried is true after a first attempt to list has succeeded or failed at each endpoint.
	Tried bool
	// Listed is true after any endpoint has listed its prompts. Definitions is the union of the
	// last good lists of all endpoints, up or not: the list of the first endpoint, then what the
	// others add. It does not depend on who answered first. A definition may be invalid:
	// [wire.ParseObject] tells.
	Listed      bool
	Definitions []jsontext.Value
	// Lists changes whenever Definitions does: it counts them.
	Lists uint64
	// TTL is for how long the list is good, if its server would not report a change: the shortest
	// time that such an endpoint gives, 0 if there is none.
	TTL time.Duration
	// Connected is true while there is a session with one endpoint.
	Connected bool
	// Revision is the protocol revision of the first endpoint that is connected or, if none is,
	// was; empty before.
	Revision string
	// Problem is why a prompt cannot be had or the list is not fresh: the first endpoint's problem
	// that other endpoints do not make up for. They do if they have no problem themselves and list
	// all prompts of that endpoint, unless calls go to it and are not made at another one when
	// they fail: one of several replicas may be down without degrading the upstream.
	Problem *Problem
	// Promptless explains why there are no prompts where no server that is connected declares any;
	// else nil.
	Promptless *Cause
	// Differences are the names of prompts whose definitions differ between endpoints, sorted. They
	// differ during a rolling deployment, so this is no conflict. Which endpoints may serve a
	// prompt is up to callers: see [Request].
	Differences []string
	// Endpoints are in configuration order.
	Endpoints []EndpointState
	// Files is the list of an upstream without a server, from which its gets are answered; nil
	// until its files have been read. A text may differ from the list before though Definitions is
	// the same.
	Files *files.List
	// FileProblems are what somebody should correct, or know of, in the files of an upstream
	// without a server.
	FileProblems []files.Problem
}

// EndpointState is what is known of one endpoint of an upstream.
type EndpointState struct {
	// Address has its sensitive parts masked.
	Address string
	// Connected is true while there is a session with the endpoint.
	Connected bool
	// Revision and Transport are those of the present or last session; empty before the first.
	Revision  string
	Transport config.Transport
	// ClockOffset is by how much the server's clock was ahead of this machine's when the session
	// began, to the second; 0 where the server did not tell its time.
	ClockOffset time.Duration
	// Promptless is set if the server of the present or last session declares no prompts.
	Promptless *Cause
	// Problem is why the endpoint's list is not fresh, or else why calls to it fail; nil where
	// neither is the case.
	Problem *Problem
	// Breaker is the state of the circuit breaker.
	Breaker BreakerState
	// Listed is true after the endpoint has listed its prompts, and Definitions is its last good
	// list. A list with the same bytes as the one before is that one, so that a new list has
	// another first element or length.
	Listed      bool
	Definitions []jsontext.Value
}

// Problem is why an upstream, or an endpoint of it, is in trouble.
type Problem struct {
	Reason Reason
	// Since is when the problem began, whatever reasons it has had since. Being refused is another
	// problem than being down.
	Since time.Time
	// Err is what happened, for logs; it may hold addresses. [Problem.Cause] explains it.
	Err error
	// Failing is set if the list is fresh, and it is gets that fail.
	Failing bool
}

// The states of a circuit breaker.
const (
	BreakerClosed   = gobreaker.StateClosed
	BreakerHalfOpen = gobreaker.StateHalfOpen
	BreakerIsOpen   = gobreaker.StateOpen
)

// Breaker returns the highest state of the endpoints' breakers.
func (s *State) Breaker() (highest BreakerState) {
	for i := range s.Endpoints {
		highest = max(highest, s.Endpoints[i].Breaker)
	}
	return highest
}

// summarize returns the state that follows from the endpoints' statuses. Definitions stay those of
// the state before.
func summarize(before *State, statuses []*status) *State {
	next := &State{
		Tried: true, Definitions: before.Definitions, Lists: before.Lists, Differences: before.Differences,
		Problem: problemOf(statuses), Endpoints: make([]EndpointState, len(statuses)),
	}
	for i, s := range statuses {
		next.Endpoints[i] = s.EndpointState
		next.Endpoints[i].Problem = s.problem()
		next.Tried = next.Tried && s.tried
		next.Listed = next.Listed || s.Listed
		if s.ttl > 0 && (next.TTL == 0 || s.ttl < next.TTL) {
			next.TTL = s.ttl
		}
		if next.Revision == "" || (s.Connected && !next.Connected) {
			next.Revision = s.Revision
		}
		next.Connected = next.Connected || s.Connected
	}
	next.Promptless = promptless(statuses)
	return next
}

// promptless returns why no endpoint that is connected has prompts; nil if one has, or none is
// connected.
func promptless(statuses []*status) (why *Cause) {
	for _, s := range statuses {
		if s.Connected && s.Promptless == nil {
			return nil
		}
		if s.Connected {
			why = cmp.Or(why, s.Promptless)
		}
	}
	return why
}

// problemOf returns the first endpoint's problem that other endpoints do not make up for.
func problemOf(statuses []*status) *Problem {
	// Those whose last good list is up to date, and whose calls do not fail.
	well := slices.DeleteFunc(slices.Clone(statuses), func(s *status) bool { return !s.Listed || s.problem() != nil })
	missing := func(name string) bool {
		return !slices.ContainsFunc(well, func(s *status) bool { return s.prompts.has(name) })
	}
	for _, s := range statuses {
		if p := s.problem(); p != nil && (len(well) == 0 || p.failsCalls() || slices.ContainsFunc(s.prompts.names, missing)) {
			return p
		}
	}
	return nil
}

// setPrompts stores a list, unless it is the present one.
func (s *State) setPrompts(definitions []jsontext.Value) {
	if s.Lists == 0 || !equalLists(s.Definitions, definitions) {
		s.Definitions = definitions
		s.Lists++
	}
}

// status is what is known of one endpoint at one moment. It is immutable.
type status struct {
	EndpointState

	// ttl, tried and lists are those of State, for this endpoint.
	ttl   time.Duration
	tried bool
	lists uint64
	// prompts indexes Definitions. It is kept only if there are other endpoints to compare it with.
	prompts promptIndex
	// calls is why calls fail in the present session, as [health.Trouble] tells it. Problem is
	// only about the list.
	calls *Problem
}

// problem returns the endpoint's problem.
func (s *status) problem() *Problem { return cmp.Or(s.Problem, s.calls) }

// setProblem records a problem of the list. One that goes on keeps the time when it began.
func (s *status) setProblem(reason Reason, err error) {
	// Being refused is another problem than being down, because only the latter hides prompts.
	s.tried = true
	next := &Problem{Reason: reason, Since: time.Now(), Err: err}
	if before := s.problem(); before != nil && before.IsRefusal() == next.IsRefusal() {
		next.Since = before.Since
	}
	s.Problem = next
}

// promptIndex finds the prompts of a list by name.
type promptIndex struct {
	// names are those of the definitions, in order; "" for a definition without one.
	names []string
	// at has the index of the first definition with a name.
	at map[string]int
}

func newPromptIndex(definitions []jsontext.Value) promptIndex {
	p := promptIndex{names: make([]string, len(definitions)), at: make(map[string]int, len(definitions))}
	for i, definition := range definitions {
		if object, err := wire.ParseObject(definition); err == nil {
			p.names[i], _ = object.Text("name")
			if p.names[i] == "" { // the entry of a skill
				p.names[i], _ = object.Text("uri")
			}
		}
		if _, ok := p.at[p.names[i]]; !ok {
			p.at[p.names[i]] = i
		}
	}
	return p
}

func (p promptIndex) has(name string) bool {
	_, ok := p.at[name]
	return ok
}

// mergeLists returns the union of the endpoints' lists, in their order, and the names of prompts that
// they define differently. Duplicates within one list stay: the catalog reports them to the
// upstream's owner.
func mergeLists(statuses []*status) (union []jsontext.Value, differences []string) {
	if len(statuses) == 1 {
		return statuses[0].Definitions, nil
	}
	var (
		listed  = map[string]jsontext.Value{}
		differs = map[string]bool{}
	)
	for _, s := range statuses {
		for i, name := range s.prompts.names {
			first, known := listed[name]
			if !known {
				union = append(union, s.Definitions[i])
			} else if i == s.prompts.at[name] && !sameDefinition(first, s.Definitions[i]) {
				differs[name] = true
			}
		}
		// Only after the whole list, so that its own duplicates are not taken for known.
		for name, i := range s.prompts.at {
			if _, known := listed[name]; !known {
				listed[name] = s.Definitions[i]
			}
		}
	}
	delete(differs, "") // definitions without a name are not the same prompt
	return union, slices.Sorted(maps.Keys(differs))
}

// equalLists reports whether two lists have the same bytes.
func equalLists(a, b []jsontext.Value) bool {
	return slices.EqualFunc(a, b, func(a, b jsontext.Value) bool { return bytes.Equal(a, b) })
}

// shareDefinitions returns a later list in which a definition that the list before has is the same
// memory, and any other is a copy: pages that were received would otherwise stay in memory for
// single definitions, and whoever has read a definition would not see at once that it is the same.
func shareDefinitions(before, later []jsontext.Value) []jsontext.Value {
	shared := make([]jsontext.Value, len(later))
	seed := maphash.MakeSeed()
	var byHash map[uint64]jsontext.Value
	for i, definition := range later {
		if i < len(before) && bytes.Equal(before[i], definition) {
			shared[i] = before[i]
			continue
		}
		if byHash == nil { // many lists only change in place
			byHash = make(map[uint64]jsontext.Value, len(before))
			for _, d := range before {
				byHash[maphash.Bytes(seed, d)] = d
			}
		}
		if known := byHash[maphash.Bytes(seed, definition)]; known != nil && bytes.Equal(known, definition) {
			shared[i] = known
		} else {
			shared[i] = bytes.Clone(definition)
		}
	}
	return shared
}

// sameDefinition reports whether two definitions are equal in canonical form (RFC 8785, without its
// rounding of integers).
func sameDefinition(a, b jsontext.Value) bool {
	if bytes.Equal(a, b) {
		return true
	}
	// Clones, because Canonicalize works in place and definitions are shared.
	a, b = a.Clone(), b.Clone()
	keepIntegers := jsontext.CanonicalizeRawInts(false)
	return a.Canonicalize(keepIntegers) == nil && b.Canonicalize(keepIntegers) == nil && bytes.Equal(a, b)
}

// countLists counts the lists that differed from the one before, of all endpoints.
func countLists(statuses []*status) (n uint64) {
	for _, s := range statuses {
		n += s.lists
	}
	return n
}
