package config

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestPatternsMatchWholeNames(t *testing.T) {
	match := func(glob, name string) {
		t.Helper()
		if p, err := ParsePattern(glob); err != nil || !p.Match(name) {
			t.Errorf("%q does not match %q: %v", glob, name, err)
		}
	}
	differ := func(glob, name string) {
		t.Helper()
		if p, err := ParsePattern(glob); err != nil || p.Match(name) {
			t.Errorf("%q matches %q: %v", glob, name, err)
		}
	}
	match("*", "")
	match("*", "a.b\nc")
	match("billing.review_*", "billing.review_pr")
	match("billing.review_*", "billing.review_")
	match("*.debug_*", "a.b.debug_x")
	match("a?c", "aéc")
	match("[ab]", "b")
	match("[a-z]x", "qx")
	match("[!a]", "b")
	match("[a-]", "-")
	match("[-a]", "-")
	match("[a^]", "^")
	match(`[\]]`, "]")
	match(`\*`, "*")
	match(`a\\b`, `a\b`)
	match("a.b", "a.b")
	match("a]b", "a]b")
	match("a{2}(b|c)+$", "a{2}(b|c)+$")
	differ("billing.review_*", "xbilling.review_pr")
	differ("billing.review", "billing.review_pr")
	differ("a.b", "axb")
	differ("a?c", "ac")
	differ("A", "a")
	differ("[!a]", "a")
	differ("[!a]", "")
	differ(`\*`, "a")
	differ("[a-c]", "d")
	if (Pattern{}).Match("") {
		t.Error("the zero Pattern matches")
	}
}

func TestPatternsThatDoNotParse(t *testing.T) {
	for _, glob := range []string{"", "[", "[a", "[!", "[]", "[!]", "[z-a]", `a\`, `[\`, "[a-", "\xff", strings.Repeat("*", maxPattern+1)} {
		if p, err := ParsePattern(glob); err == nil {
			t.Errorf("ParsePattern(%.20q) = %.20v, want an error", glob, p)
		}
	}
}

func TestMatchingIsLinear(t *testing.T) {
	p, err := ParsePattern(strings.Repeat("*a", 50) + "b")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	p.Match(strings.Repeat("a", 10_000))
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func FuzzPattern(f *testing.F) {
	f.Add("billing.review_*", "billing.review_pr")
	f.Add(`[!a-z\]]?`, "ä.")
	f.Fuzz(func(t *testing.T, glob, name string) {
		if p, err := ParsePattern(glob); err == nil {
			p.Match(name)
		}
		if name == "" || !utf8.ValidString(name) || len(name) > 1000 {
			return
		}
		var literal strings.Builder
		for _, r := range name {
			literal.WriteString(`\` + string(r))
		}
		for _, own := range []string{literal.String(), literal.String() + "*", "*" + literal.String(), "[" + literal.String() + "]*", strings.Repeat("?", utf8.RuneCountInString(name))} {
			if p, err := ParsePattern(own); err != nil || !p.Match(name) {
				t.Errorf("%q does not match %q: %v", own, name, err)
			}
		}
	})
}

func TestSelectors(t *testing.T) {
	for _, s := range []string{"*", "user:alice@example.com", "user:corp/alice", "group:a:b", "team:search"} {
		if sel, err := ParseSelector(s); err != nil || sel.String() != s {
			t.Errorf("ParseSelector(%q) = %v, %v", s, sel, err)
		}
	}
	for _, s := range []string{"", "alice", "user:", "*:x", "role:x", "user:a b", "User:a", "user:\x00"} {
		if sel, err := ParseSelector(s); err == nil {
			t.Errorf("ParseSelector(%q) = %v, want an error", s, sel)
		}
	}
}
