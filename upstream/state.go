package upstream

import (
	"bytes"
	"hash/maphash"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/sony/gobreaker/v2"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/files"
)

// State is what is known of an upstream at one moment. It is immutable.
type State struct {
	// Tried is true after a first attempt to list has succeeded or failed.
	Tried bool
	// Listed is true after the server has listed its prompts. Definitions is the last good list,
	// whether the server is up or not. A definition may be invalid: [wire.ParseObject] tells.
	Listed      bool
	Definitions []jsontext.Value
	// Lists changes whenever Definitions does: it counts them.
	Lists uint64
	// TTL is for how long the list is good, if the server gives that and would not report a change;
	// otherwise 0.
	TTL time.Duration
	// Connected is true while there is a session.
	Connected bool
	// Revision and Transport are those of the current or last session; empty before the first.
	Revision  string
	Transport config.Transport
	// ClockOffset is by how much the server's clock was ahead of this machine's when the session
	// began, to the second; 0 where the server did not tell its time.
	ClockOffset time.Duration
	// Problem is why the list is not fresh, or else why calls fail; nil where neither is the case.
	Problem *Problem
	// Breaker is the state of the circuit breaker.
	Breaker BreakerState
	// Promptless explains why there are no prompts while a server is connected that declares none;
	// else nil.
	Promptless *Cause
	// Files is the list of an upstream without a server, from which its gets are answered; nil
	// until its files have been read. A text may differ from the list before though Definitions is
	// the same.
	Files *files.List
	// FileProblems are what somebody should correct, or know of, in the files of an upstream
	// without a server.
	FileProblems []files.Problem

	// ofList is why the list is not fresh, and ofCalls why calls fail in the current session, as
	// [health.Trouble] tells it. Problem is the first of them that is set.
	ofList, ofCalls *Problem
}

// Problem is why an upstream is in trouble.
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

// setProblem records a problem of the list. One that goes on keeps the time when it began.
func (s *State) setProblem(reason Reason, err error) {
	s.Tried = true
	s.ofList = &Problem{Reason: reason, Since: time.Now(), Err: err}
	// Being refused is another problem than being down, because only the latter hides prompts.
	if before := s.Problem; before != nil && before.IsRefusal() == s.ofList.IsRefusal() {
		s.ofList.Since = before.Since
	}
}

// setPrompts stores a list, unless it is the current one: many servers send the same list again
// after each notification, and each new one becomes a new catalog.
func (s *State) setPrompts(definitions []jsontext.Value) {
	if s.Lists == 0 || !equalLists(s.Definitions, definitions) {
		s.Definitions = definitions
		s.Lists++
	}
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
