package config

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

func TestPattern_NearestIsWhatWasMostLikelyMeant(t *testing.T) {
	names := []string{"billing.invoice", "billing.review_code", "billing.review_text", "notes.summary", "a.ü"}
	for pattern, want := range map[string]string{
		"billing.reveiw_*":    "billing.review_code",
		"biling.*":            "billing.invoice",
		"billing.invoic":      "billing.invoice",
		"billing.invoices":    "billing.invoice",
		"bililng.review_text": "billing.review_text",
		"notes.wip_*":         "",
		"billing.inv?":        "billing.invoice",
		"billing.zzz":         "",
		"*":                   "",
		"a.u":                 "a.ü",
		"no.such":             "",
	} {
		p, err := ParsePattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Nearest(names); got != want {
			t.Errorf("%s: nearest %q, want %q", pattern, got, want)
		}
	}
}

func TestPattern_MatchesWholeNames(t *testing.T) {
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
	match("[!^]", "a")
	match(`[\^a]`, "^")
	match(`[\]]`, "]")
	match(`\*`, "*")
	match(`a\\b`, `a\b`)
	match("a.b", "a.b")
	match("a]b", "a]b")
	match("a{2}(b|c)+$", "a{2}(b|c)+$")
	match("a*b*c", "abc")
	match("a*b*c", "a.b.b.c")
	match("*b**c*", "b-c")
	match("ab*ab", "abab")
	match("*a", "aa")
	differ("ab*ba", "aba")
	differ("a*b*c", "acb")
	differ("a*bb*c", "abc")
	differ("*ab*ab*", "aab")
	differ("billing.review_*", "xbilling.review_pr")
	differ("billing.review", "billing.review_pr")
	differ("a.b", "axb")
	differ("a?c", "ac")
	differ("A", "a")
	differ("[!a]", "a")
	differ("[!a]", "")
	differ(`\*`, "a")
	differ("[a-c]", "d")
	// HCL composes the characters of patterns; servers send names in any form.
	match("p.secret_ü", "p.secret_u\u0308")
	match("p.secret_ü", "p.secret_ü")
	match("p.secret_?", "p.secret_u\u0308")
	match("[ü]b", "u\u0308b")
	match("u*", "u\u0308")
	match("[!ü]*", "u\u0308") // rather hidden than shown
	match("p.Å", "p.\u212b")
	differ("p.secret_ü", "p.secret_u")
	differ("[!ü]", "u\u0308")
	differ("[!ü]*", "ü")
	if (Pattern{}).Match("") || (Pattern{}).Match("u\u0308") {
		t.Error("the zero Pattern matches")
	}
}

func TestParsePattern_RefusesMistakes(t *testing.T) {
	for _, glob := range []string{
		"", "[", "[a", "[!", "[]", "[!]", "[^", "[^a]", "[^]", "[z-a]", `a\`, `[\`, "[a-", "\xff", strings.Repeat("*", maxPattern+1),
	} {
		if p, err := ParsePattern(glob); err == nil {
			t.Errorf("ParsePattern(%.20q) = %.20v, want an error", glob, p)
		}
	}
}

func FuzzPattern(f *testing.F) {
	f.Add("billing.review_*", "billing.review_pr")
	f.Add(`[!a-z\]]?`, "ä.")
	f.Add("*", "a\u0308\u0323")
	f.Add("*ab*ba*", "xabay")
	f.Fuzz(func(t *testing.T, glob, name string) {
		name = strings.ToValidUTF8(name, "") // names come from JSON
		if p, err := ParsePattern(glob); err == nil && p.Match(name) != byExpression(t, glob, name) {
			t.Errorf("%q and %q: Match = %t, by the expression it is not", glob, name, p.Match(name))
		}
		if name == "" || len(name) > 1000 {
			return
		}
		literal := escape(name)
		for _, own := range []string{
			literal, literal + "*", "*" + literal, "[" + literal + "]*", strings.Repeat("?", utf8.RuneCountInString(name)),
			escape(norm.NFC.String(name)),
		} {
			if p, err := ParsePattern(own); err != nil || !p.Match(name) {
				t.Errorf("%q does not match %q: %v", own, name, err)
			}
		}
	})
}

// byExpression matches any pattern by its regular expression, as an oracle for Match.
func byExpression(t *testing.T, glob, name string) bool {
	t.Helper()
	expr, err := translate([]rune(glob))
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(expr).MatchString(name) || regexp.MustCompile(expr).MatchString(norm.NFC.String(name))
}

// escape returns the pattern that matches one name.
func escape(name string) string {
	var literal strings.Builder
	for _, r := range name {
		literal.WriteString(`\` + string(r))
	}
	return literal.String()
}
