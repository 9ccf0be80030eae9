package session

import (
	"bytes"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/sony/gobreaker/v2"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/files"
)

// State is a snapshot of everything known about an upstream. It is immutable.
type State struct {
	// Tried is true after the first attempt to list has succeeded or failed.
	Tried bool
	// Listed is true after the server has listed its prompts. Definitions is the last good list,
	// even if the server is down. A definition may be invalid; [wire.ParseObject] then refuses it.
	Listed      bool
	Definitions []jsontext.Value
	// Lists counts the changes of Definitions.
	Lists uint64
	// TTL is the server's TTL for the list, if the server would not report every change; otherwise
	// 0.
	TTL time.Duration
	// Connected is true while there is a session.
	Connected bool
	// Revision and Transport are from the current or last session; empty before the first.
	Revision  string
	Transport config.Transport
	// ClockOffset is the server's time minus this machine's at the start of the session, rounded to
	// the second; 0 if unknown.
	ClockOffset time.Duration
	// Problem is the problem of the list or otherwise of calls; nil for none.
	Problem *Problem
	// Breaker is the state of the circuit breaker.
	Breaker gobreaker.State
	// Promptless explains why a connected server has no prompts; nil otherwise.
	Promptless *Cause
	// Files is the list of an upstream with files, which answers its gets; nil until the files were
	// read. A text may differ from the previous list although Definitions is equal.
	Files *files.List
	// FileProblems are findings in an upstream's files that a person should know of.
	FileProblems []files.Problem

	// ofList is the problem of the list. ofCalls is the problem of calls in the current session,
	// which package call reports. Problem is the first one that is set.
	ofList, ofCalls *Problem
}

// setProblem sets the problem of the list. If the problem continues, it keeps its start.
func (s *State) setProblem(reason Reason, err error) {
	s.Tried = true
	s.ofList = &Problem{Reason: reason, Since: time.Now(), Err: err}
	// Being refused and being down are different problems: only an outage can hide prompts.
	if before := s.Problem; before != nil && before.IsRefusal() == s.ofList.IsRefusal() {
		s.ofList.Since = before.Since
	}
}

// SetPrompts sets the list, unless it is equal to the current one: many servers send the same list
// after each notification, and each new list makes a new catalog.
func (s *State) SetPrompts(definitions []jsontext.Value) {
	if s.Lists == 0 || !equalLists(s.Definitions, definitions) {
		s.Definitions = definitions
		s.Lists++
	}
}

// equalLists reports whether two lists have equal bytes.
func equalLists(a, b []jsontext.Value) bool {
	return slices.EqualFunc(a, b, func(a, b jsontext.Value) bool { return bytes.Equal(a, b) })
}

// shareDefinitions returns the later list with the memory of equal definitions of the earlier list,
// and copies of all other definitions. Otherwise single definitions would keep received pages in
// memory.
func shareDefinitions(before, later []jsontext.Value) []jsontext.Value {
	if equalLists(before, later) { // as after most lists
		return before
	}
	known := make(map[string]jsontext.Value, len(before))
	for _, definition := range before {
		known[string(definition)] = definition
	}
	shared := make([]jsontext.Value, len(later))
	for i, definition := range later {
		if shared[i] = known[string(definition)]; shared[i] == nil {
			shared[i] = bytes.Clone(definition)
		}
	}
	return shared
}
