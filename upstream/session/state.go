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

// State is a snapshot of the state of an upstream. It is immutable.
type State struct {
	// Tried is true after the first attempt to list has succeeded or failed.
	Tried bool
	// Listed is true after the first good list. Definitions is the last good list, even if the server is down. A
	// definition may be invalid, so that [wire.ParseObject] refuses it.
	Listed      bool
	Definitions []jsontext.Value
	// Lists counts the changes of Definitions.
	Lists uint64
	// TTL is the server's TTL for the list, or 0 if the server reports every change or sends no
	// TTL.
	TTL time.Duration
	// Connected is true while there is a session, and while a lost session is being renewed.
	Connected bool
	// Revision and Transport are from the current or last session. They are empty before the first
	// session.
	Revision  string
	Transport config.Transport
	// ClockOffset is the server's time minus this machine's time at the start of the session, rounded to the second, or
	// 0 if it cannot be determined.
	ClockOffset time.Duration
	// Problem is the latest problem of the list or, if the list has no problem, the problem of calls.
	// It is nil if there is no problem.
	Problem *Problem
	// Breaker is the state of the circuit breaker.
	Breaker gobreaker.State
	// Promptless explains why a connected server has no prompts. It is nil otherwise.
	Promptless *Cause
	// Files is the list of an upstream with files, from which its gets are answered. It is nil until the files were
	// read. Two lists with equal Definitions may have different texts.
	Files *files.List
	// FileProblems are the errors and warnings about an upstream's files.
	FileProblems []files.Problem

	// ofList is the problem of the list. ofCalls is the problem of calls in the current session, which package call
	// reports. Problem is ofList, or ofCalls if ofList is nil.
	ofList, ofCalls *Problem
}

// setProblem sets the problem of the list. If an earlier problem goes on, the new one has the same start.
func (s *State) setProblem(reason Reason, err error) {
	s.Tried = true
	s.ofList = &Problem{Reason: reason, Since: time.Now(), Err: err}
	// Being refused and being down are different problems: only an outage can hide prompts.
	if before := s.Problem; before != nil && before.IsRefusal() == s.ofList.IsRefusal() {
		s.ofList.Since = before.Since
	}
}

// SetPrompts sets the list, unless it is equal to the current one: many servers send the same list after each
// notification, and each new list causes a new catalog.
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

// shareDefinitions returns the later list. It reuses the memory of equal definitions in the earlier list and copies all
// other definitions. Otherwise one definition would keep a whole received page in memory.
func shareDefinitions(before, later []jsontext.Value) []jsontext.Value {
	if equalLists(before, later) { // as after most lists
		return before
	}
	earlier := make(map[string]jsontext.Value, len(before))
	for _, definition := range before {
		earlier[string(definition)] = definition
	}
	shared := make([]jsontext.Value, len(later))
	for i, definition := range later {
		if shared[i] = earlier[string(definition)]; shared[i] == nil {
			shared[i] = bytes.Clone(definition)
		}
	}
	return shared
}
