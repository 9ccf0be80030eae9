package hclread

import (
	"encoding/base64"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Lazily returns a function that compiles an expression at its first call. So commands that do not use the
// expression start faster.
func Lazily(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// Masked is the text that replaces sensitive values.
const Masked = "(sensitive)"

// PEMStart begins every block of a PEM file.
const PEMStart = "-----BEGIN "

var errPEM = errors.New("is PEM itself; write the path of a file that contains it")

// Text is one string of the configuration.
type Text struct {
	Value string
	At    hcl.Range
	// Sensitive is true if no message may show the value.
	Sensitive bool
	// Unset is true if the value depends on an unset variable. Then Value is empty, and must not be checked.
	Unset bool
}

// newText converts a string. A marked string is sensitive, and an unknown string is unset.
func newText(v cty.Value, at hcl.Range, sensitive bool) Text {
	v, marks := v.Unmark()
	t := Text{At: at, Sensitive: sensitive || len(marks) > 0, Unset: !v.IsKnown()}
	if !t.Unset {
		t.Value = v.AsString()
	}
	return t
}

// String returns the value in quotes, or [Masked] if it is sensitive.
func (t Text) String() string {
	if t.Sensitive {
		return Masked
	}
	return strconv.Quote(t.Value)
}

// Printable replaces control characters, and characters that are invisible or change the reading direction: the
// author of a file or its name must not control the terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// hasCredentials reports whether a value may be a URL with a user, a password, or a query, where tokens may be.
func hasCredentials(value string) bool {
	return strings.ContainsAny(value, "@?") && strings.Contains(value, "//")
}

// DecodeBase64 reads the standard and the URL alphabet, padded or not.
func DecodeBase64(s string) ([]byte, error) {
	// Tools write keys in either alphabet. The alphabets differ in two characters only, so one can replace the other.
	s = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s, "="))
	return base64.RawStdEncoding.Strict().DecodeString(s)
}
