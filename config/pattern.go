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

// Pattern is a glob over whole names. The zero Pattern matches nothing; [ParsePattern] makes the
// others.
//
//	"*"             any run of characters, none and the separator included
//	"?"             one character
//	"[ab]" "[a-z]"  one character of the class
//	"[!ab]"         one character outside the class
//	"\"             takes the next character literally, in a class too (in HCL: "\\*")
//
// Matching is case-sensitive and linear in the length of the name, whatever the pattern.
//
// HCL turns every string into Unicode's composed form (NFC), while servers choose the form of their
// names. So a name matches if it does as it is or in its composed form: "secret_ü" hides the prompt
// in both spellings, and so does "secret_?". A class that excludes characters also sees the
// decomposed spelling, where "ü" starts with a "u" that "[!ü]*" matches. That is the safe reading
// for a hide block, which then hides too much rather than too little. In an expose block, "[!ü]"
// keeps nothing back: hide what others must not see.
type Pattern struct {
	text string
	// parts are the literal texts between the stars of a pattern without other wildcards, which
	// nearly all are. They take a fraction of the memory of re, which is for the others.
	parts []string
	re    *regexp.Regexp
	// byKind is set where skills are served: a pattern then matches names of one kind only, skills
	// if it begins with [SkillPrefix].
	byKind bool
}

// ParsePattern compiles a pattern. The error quotes it and says why it is wrong.
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

// matchParts reports whether a name consists of the parts in order, with any characters between
// them. No name matches no parts.
func matchParts(name string, parts []string) bool {
	last := len(parts) - 1
	if last <= 0 {
		return last == 0 && name == parts[0]
	}
	// Prefix and suffix are cut off first, so that the two cannot match the same characters:
	// "ab*ba" does not match "aba".
	name, begins := strings.CutPrefix(name, parts[0])
	name, ends := strings.CutSuffix(name, parts[last])
	if !begins || !ends {
		return false
	}
	for _, part := range parts[1:last] { // the first occurrence leaves the most for the next part
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

// maxNearest bounds the names among which the nearest is looked for.
const maxNearest = 1000

// Nearest returns the name that a pattern which matches none of them was most likely meant to
// match, empty if none is near. What comes before the first wildcard is compared. Beside the
// letters at the start that are right, half may be wrong of a few, and a third of many.
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

// commonPrefix returns how many bytes are the same at the start of both.
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

// literalStart returns what every matching name starts with, and whether that is the whole name.
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

// parsePattern leaves the pattern out of its errors, since the caller knows whether it may be
// shown.
func parsePattern(s string) (Pattern, error) {
	if s == "" {
		return Pattern{}, errors.New(`is empty and matches nothing; write "*" for every name`)
	}
	if len(s) > maxPattern {
		return Pattern{}, fmt.Errorf("is longer than %d bytes", maxPattern)
	}
	if !utf8.ValidString(s) { // a regular expression could not contain it
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
	if err != nil { // the syntax is right by construction, which leaves the size
		return Pattern{}, errors.New("is too complex")
	}
	return Pattern{text: s, re: re}, nil
}

// translate writes the glob as an RE2 expression, which matches in linear time.
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

// translateClass writes the class that follows a "[" and returns how many runes it took, "]"
// included.
func translateClass(out *strings.Builder, glob []rune) (int, error) {
	out.WriteByte('[')
	i := 0
	switch {
	// Other globs exclude with it; here it would silently do the opposite.
	case len(glob) > 0 && glob[0] == '^':
		return 0, errors.New(`has a class that starts with "^"; write "[!a]" for all but "a", "[\^a]" for "^" and "a"`)
	case len(glob) > 0 && glob[0] == '!':
		out.WriteByte('^')
		i++
	}
	for first := i; ; {
		if i < len(glob) && glob[i] == ']' {
			if i == first {
				return 0, errors.New(`has an empty class "[]"; write "\\[" for a bracket`)
			}
			out.WriteByte(']')
			return i + 1, nil
		}
		n, err := translateMember(out, glob[i:])
		if err != nil {
			return 0, err
		}
		i += n
	}
}

// translateMember writes one character or one range of a class and returns how many runes it took.
func translateMember(out *strings.Builder, glob []rune) (int, error) {
	from, n, err := classRune(glob)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(out, `\x{%x}`, from)
	// A "-" at either end of a class stands for itself.
	if n+1 >= len(glob) || glob[n] != '-' || glob[n+1] == ']' {
		return n, nil
	}
	to, m, err := classRune(glob[n+1:])
	if err != nil {
		return 0, err
	}
	if to < from {
		return 0, fmt.Errorf("has a class whose range %c-%c runs backwards", from, to)
	}
	fmt.Fprintf(out, `-\x{%x}`, to)
	return n + 1 + m, nil
}

// classRune reads one possibly escaped character of a class.
func classRune(glob []rune) (char rune, n int, err error) {
	if len(glob) > 0 && glob[0] == '\\' {
		glob, n = glob[1:], 1
	}
	if len(glob) == 0 {
		return 0, 0, errors.New(`has a class without a closing "]"; write "\\[" for a bracket`)
	}
	return glob[0], n + 1, nil
}
