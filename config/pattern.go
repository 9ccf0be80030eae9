package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/agext/levenshtein"
	"golang.org/x/text/unicode/norm"
)

// maxPattern bounds a pattern in bytes, far above the longest exposed name.
const maxPattern = 4096

// Pattern is a glob over whole names. The zero Pattern matches nothing. Make a Pattern with [ParsePattern].
//
//	"*"             any run of characters, the separator included
//	"?"             one character
//	"[ab]" "[a-z]"  one character of the class
//	"[!ab]"         one character outside the class
//	"\"             takes the next character literally, in a class too (in HCL: "\\*")
//
// Matching is case-sensitive, and linear in the length of the name.
//
// HCL composes every string (NFC), but servers choose the form of their names. A name matches if it
// matches as it is or composed: "secret_ü" and "secret_?" hide the prompt in both spellings. A
// class that excludes characters also sees the decomposed spelling: in that spelling, "ü" starts
// with "u", which "[!ü]*" matches. So a hide block hides too much rather than too little. In an
// expose block, "[!ü]" withholds nothing: hide such prompts.
type Pattern struct {
	text string
	// parts are the literal texts between the stars of a pattern without other wildcards. Nearly
	// all patterns have only stars, and parts take a fraction of the memory of re.
	parts []string
	re    *regexp.Regexp
	// byKind is true if any upstream serves skills. If so, a pattern matches only skills if it
	// begins with [SkillPrefix], and only prompts otherwise.
	byKind bool
}

// ParsePattern compiles a pattern. The error quotes the pattern.
func ParsePattern(s string) (Pattern, error) {
	p, err := parsePattern(s)
	if err != nil {
		return Pattern{}, fmt.Errorf("pattern %q %w", s, err)
	}
	return p, nil
}

// Match reports whether the whole name matches, as it is or composed.
func (p Pattern) Match(name string) bool {
	return p.match(name) || !norm.NFC.IsNormalString(name) && p.match(norm.NFC.String(name))
}

func (p Pattern) match(name string) bool {
	if p.byKind && IsSkill(name) != IsSkill(p.text) {
		return false
	}
	if p.re != nil {
		return p.re.MatchString(name)
	}
	return matchParts(name, p.parts)
}

// matchParts reports whether a name consists of the parts in order, with any characters between them. Without
// parts, nothing matches.
func matchParts(name string, parts []string) bool {
	last := len(parts) - 1
	if last <= 0 {
		return last == 0 && name == parts[0]
	}
	// Cutting off prefix and suffix first keeps them from matching the same characters: "ab*ba" does not match
	// "aba".
	name, begins := strings.CutPrefix(name, parts[0])
	name, ends := strings.CutSuffix(name, parts[last])
	if !begins || !ends {
		return false
	}
	for _, part := range parts[1:last] { // the first occurrence leaves the longest text for the next part
		var found bool
		if _, name, found = strings.Cut(name, part); !found {
			return false
		}
	}
	return true
}

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.text }

// MarshalText makes a pattern readable in JSON.
func (p Pattern) MarshalText() ([]byte, error) { return []byte(p.text), nil }

// maxNearest bounds the names that Nearest compares.
const maxNearest = 1000

// Nearest returns the name for which a pattern without a match was probably written, or "" if no name
// is near. It compares names with the part before the first wildcard. After their common beginning, it
// tolerates errors in half of the remaining bytes if they are few, and in a third if they are many.
func (p Pattern) Nearest(names []string) string {
	start, isWhole := p.literalStart()
	best, least := "", len(start)
	for _, name := range names[:min(len(names), maxNearest)] {
		compared := name
		if !isWhole {
			compared = name[:min(len(name), len(start))]
		}
		rest := len(start) - commonPrefix(start, compared)
		limit := max(1, min(rest/2, rest/3+1))
		if difference := len(start) - len(compared); difference > limit || -difference > limit {
			continue
		}
		if d := levenshtein.Distance(start, compared, nil); d <= limit && d < least {
			best, least = name, d
		}
	}
	return best
}

// commonPrefix returns the length of the longest common prefix of a and b in bytes.
func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// CanStartWith reports whether the pattern can match a name with this start.
func (p Pattern) CanStartWith(start string) bool {
	literal, isWhole := p.literalStart()
	return strings.HasPrefix(literal, start) || !isWhole && strings.HasPrefix(start, literal)
}

// literalStart returns the literal beginning of the pattern, and whether that is the whole pattern.
func (p Pattern) literalStart() (start string, isWhole bool) {
	var out strings.Builder
	isEscaped := false
	for _, r := range p.text {
		switch {
		case isEscaped:
			isEscaped = false
		case r == '\\':
			isEscaped = true
			continue
		case strings.ContainsRune("*?[", r):
			return out.String(), false
		}
		out.WriteRune(r)
	}
	return out.String(), true
}

// parsePattern is [ParsePattern] with errors that do not quote the pattern, which may be sensitive.
func parsePattern(s string) (Pattern, error) {
	if s == "" {
		return Pattern{}, errors.New(`is empty and matches nothing; write "*" for every name`)
	}
	if len(s) > maxPattern {
		return Pattern{}, fmt.Errorf("is longer than %d bytes", maxPattern)
	}
	if !utf8.ValidString(s) { // a regular expression cannot contain invalid UTF-8
		return Pattern{}, errors.New("is not valid UTF-8")
	}
	if !strings.ContainsAny(s, `?[\`) {
		return Pattern{text: s, parts: strings.Split(s, "*")}, nil
	}
	expr, err := translate([]rune(s))
	if err != nil {
		return Pattern{}, err
	}
	re, err := regexp.Compile(expr)
	if err != nil { // there are only two causes, because translate otherwise writes valid expressions
		return Pattern{}, errors.New("has a class whose range runs backwards, or is too complex")
	}
	return Pattern{text: s, re: re}, nil
}

// translate returns the glob as an RE2 expression.
func translate(glob []rune) (string, error) {
	var out strings.Builder
	out.WriteString(`(?s)\A`)
	for i := 0; i < len(glob); i++ {
		switch glob[i] {
		case '*':
			out.WriteString(".*")
		case '?':
			out.WriteString(".")
		case '[':
			n, err := translateClass(&out, glob[i+1:])
			if err != nil {
				return "", err
			}
			i += n
		case '\\':
			i++
			if i == len(glob) {
				return "", errors.New(`ends in a lone "\"; write "\\" for a backslash`)
			}
			fallthrough
		default:
			out.WriteString(regexp.QuoteMeta(string(glob[i])))
		}
	}
	out.WriteString(`\z`)
	return out.String(), nil
}

// translateClass writes the class after a "[" and returns its length in runes, "]" included.
func translateClass(out *strings.Builder, glob []rune) (int, error) {
	out.WriteByte('[')
	i := 0
	switch {
	// Other globs exclude characters with ^. Here, the class would silently include them.
	case len(glob) > 0 && glob[0] == '^':
		return 0, errors.New(`has a class that starts with "^"; write "[!a]" for all but "a", "[\^a]" for "^" and "a"`)
	case len(glob) > 0 && glob[0] == '!':
		out.WriteByte('^')
		i++
	}
	for first := i; i < len(glob); i++ {
		switch {
		case glob[i] == ']' && i == first:
			return 0, errors.New(`has an empty class "[]"; write "\\[" for a bracket`)
		case glob[i] == ']':
			out.WriteByte(']')
			return i + 1, nil
		case glob[i] == '-': // a range or, at either end, literal: RE2 reads it in the same way
			out.WriteByte('-')
			continue
		case glob[i] == '\\' && i+1 < len(glob):
			i++
		}
		fmt.Fprintf(out, `\x{%x}`, glob[i])
	}
	return 0, errors.New(`has a class without a closing "]"; write "\\[" for a bracket`)
}
