package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// ParseSelector reads "user:NAME", "group:NAME", "team:NAME" or "*". Whether a team of that name exists is
// for the caller to check.
func ParseSelector(s string) (Selector, error) {
	sel, err := parseSelector(s)
	if err != nil {
		return Selector{}, fmt.Errorf("selector %q %w", s, err)
	}
	return sel, nil
}

func parseSelector(s string) (Selector, error) {
	if s == string(Anybody) {
		return Selector{Kind: Anybody}, nil
	}
	kind, name, found := strings.Cut(s, ":")
	switch sel := (Selector{SelectorKind(kind), name}); {
	case !found || sel.Kind != User && sel.Kind != Group && sel.Kind != TeamMembers:
		return Selector{}, errors.New(`names nobody; write "user:NAME", "group:NAME", "team:NAME" or "*"`)
	case !printable(name):
		return Selector{}, errors.New("needs a name without spaces after the colon")
	default:
		return sel, nil
	}
}

// printable reports whether s is a name that stands out in a line of text: not empty, no white space.
func printable(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar
	})
}
