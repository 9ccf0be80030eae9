package config

import (
	"errors"
	"fmt"
	"strings"
)

// SelectorKind is what a [Selector] compares.
type SelectorKind string

// The kinds of selector, as they are written before the colon.
const (
	User        SelectorKind = "user"
	Group       SelectorKind = "group"
	TeamMembers SelectorKind = "team"
	Anybody     SelectorKind = "*"
)

// Selector is one element of members or to: "user:alice", "group:payments", "team:search" or "*".
type Selector struct {
	Kind SelectorKind
	// Name is what follows the colon; empty for [Anybody].
	Name string
}

// String writes a selector as it is written in the configuration.
func (s Selector) String() string {
	if s.Kind == Anybody {
		return string(Anybody)
	}
	return string(s.Kind) + ":" + s.Name
}

// ParseSelector reads "user:NAME", "group:NAME", "team:NAME" or "*". It does not check whether the team exists.
func ParseSelector(s string) (Selector, error) {
	sel, err := parseSelector(s)
	if err != nil {
		return Selector{}, fmt.Errorf("selector %q %w", s, err)
	}
	return sel, nil
}

// parseSelector leaves the selector out of its errors, since the caller knows whether it may be shown.
func parseSelector(s string) (Selector, error) {
	if s == string(Anybody) {
		return Selector{Kind: Anybody}, nil
	}
	// The first colon ends the kind: subjects and groups may contain further ones.
	kind, name, found := strings.Cut(s, ":")
	switch sel := (Selector{SelectorKind(kind), name}); {
	case !found || sel.Kind != User && sel.Kind != Group && sel.Kind != TeamMembers:
		return Selector{}, errors.New(`selects no one; write "user:NAME", "group:NAME", "team:NAME" or "*"`)
	case !isPrintable(name):
		return Selector{}, errors.New("needs a name without spaces after the colon")
	case strings.ContainsFunc(name, IsInvisible):
		return Selector{}, errors.New("contains a character that people cannot see; remove it")
	default:
		return sel, nil
	}
}
