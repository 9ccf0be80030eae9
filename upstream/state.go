package upstream

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/files"
)

// State is what is known of an upstream at one moment. It is immutable.
type State struct {
	// Tried is true after a first attempt to list has succeeded or failed at each endpoint.
	Tried bool
	// Listed is true after any endpoint has listed its prompts. Definitions is the union of the last good lists of all
	// endpoints, up or not: the list of the first endpoint, then what the others add. It does not depend on who answered
	// first. A definition may be invalid: [wire.ParseObject] tells.
	Listed      bool
	Definitions []jsontext.Value
	// Lists changes whenever Definitions does: it counts them.
	Lists uint64
	// TTL is for how long the list is good, if its server would not report a change: the shortest time that such an endpoint
	// gives, 0 if there is none.
	TTL time.Duration
	// Connected is true while there is a session with one endpoint.
	Connected bool
	// Revision is the protocol revision of the first endpoint that is connected or, if none is, was; empty before.
	Revision string
	// Problem is why a prompt cannot be had or the list is not fresh: the first endpoint's problem that other endpoints
	// do not make up for. They do if their lists are fresh and contain all prompts of that endpoint: one of several
	// replicas may be down without degrading the upstream.
	Problem *Problem
	// Differences are the names of prompts whose definitions differ between endpoints, sorted. They differ during a
	// rolling deployment, so this is no conflict. Which endpoints may serve a prompt is up to callers: see [Request].
	Differences []string
	// Endpoints are in configuration order.
	Endpoints []EndpointState
	// FileProblems are what a person should correct, or know of, in the files of an upstream without a server.
	FileProblems []files.Problem
}

// EndpointState is what is known of one endpoint of an upstream.
type EndpointState struct {
	// Address has its sensitive parts masked.
	Address string
	// Connected is true while there is a session with the endpoint.
	Connected bool
	// Revision is that of the present or last session; empty before the first.
	Revision string
	// Problem is why the endpoint's list is not fresh; nil if it is.
	Problem *Problem
	// Listed is true after the endpoint has listed its prompts, and Definitions is its last good list. A list with the same
	// bytes as the one before is that one, so that a new list has another first element or length.
	Listed      bool
	Definitions []jsontext.Value
}

// Problem is why an upstream, or an endpoint of it, is degraded.
type Problem struct {
	Reason Reason
	// Since is when the problem began.
	Since time.Time
	// Err is the cause, for logs; it may hold addresses.
	Err error
}

// summarize returns the state that follows from the endpoints' statuses. Definitions stay those of the state before.
func summarize(before *State, statuses []*status) *State {
	next := &State{
		Tried: true, Definitions: before.Definitions, Lists: before.Lists, Differences: before.Differences,
		Problem: problemOf(statuses), Endpoints: make([]EndpointState, len(statuses)),
	}
	for i, s := range statuses {
		next.Endpoints[i] = s.EndpointState
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
	return next
}

// problemOf returns the first endpoint's problem that other endpoints do not make up for.
func problemOf(statuses []*status) *Problem {
	fresh := slices.DeleteFunc(slices.Clone(statuses), func(s *status) bool { return !s.isFresh() })
	elsewhere := func(name string) bool {
		return slices.ContainsFunc(fresh, func(s *status) bool { return s.prompts.has(name) })
	}
	missing := func(name string) bool { return !elsewhere(name) }
	for _, s := range statuses {
		if s.Problem != nil && (len(fresh) == 0 || slices.ContainsFunc(s.prompts.names, missing)) {
			return s.Problem
		}
	}
	return nil
}

// setPrompts stores a merged list, unless it is the present one.
func (s *State) setPrompts(m mergedLists) {
	s.Differences = m.differences
	if s.Lists == 0 || !equalLists(s.Definitions, m.definitions) {
		s.Definitions = m.definitions
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
}

// setProblem records a problem. One that goes on keeps the time when it began.
func (s *status) setProblem(reason Reason, err error) {
	s.tried = true
	since := time.Now()
	if s.Problem != nil {
		since = s.Problem.Since
	}
	s.Problem = &Problem{Reason: reason, Since: since, Err: err}
}

// isFresh reports whether the last good list is up to date.
func (s *status) isFresh() bool { return s.Listed && s.Problem == nil }
