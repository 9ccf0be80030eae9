package hclread

import (
	"bytes"
	"encoding/base64"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Lazily returns a function that compiles an expression at its first call: a command that needs none
// does not wait for them.
func Lazily(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// Masked is shown in place of every sensitive value.
const Masked = "(sensitive)"

// PEMStart begins every block of a PEM file.
const PEMStart = "-----BEGIN "

var errPEM = errors.New("is PEM itself; write the path of a file that contains it")

// Text is one string of the configuration.
type Text struct {
	Value string
	At    hcl.Range
	// Sensitive means that no message may show the value.
	Sensitive bool
	// Unset means that the value depends on an unset variable: it is empty, and there is nothing to
	// check.
	Unset bool
}

// newText makes a Text of a string that may be marked or unknown.
func newText(v cty.Value, at hcl.Range, sensitive bool) Text {
	v, marks := v.Unmark()
	t := Text{At: at, Sensitive: sensitive || len(marks) > 0}
	if !v.IsKnown() {
		t.Unset = true
		return t
	}
	t.Value = v.AsString()
	return t
}

// String is the value as a message may show it.
func (t Text) String() string {
	if t.Sensitive {
		return Masked
	}
	return strconv.Quote(t.Value)
}

// Printable replaces what a terminal could act on, and what changes the reading direction or shows
// nothing: the author of a file, or of its name, must not decide what a terminal shows.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if isShown(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// printableSource is [Printable] for a file.
func printableSource(content []byte) []byte {
	// A question mark stands in place of each byte, so that offsets stay.
	shown := bytes.Clone(content)
	for at := 0; at < len(content); {
		r, size := utf8.DecodeRune(content[at:])
		isLineEnd := r == '\r' && bytes.HasPrefix(content[at+size:], []byte("\n"))
		if r == utf8.RuneError && size == 1 || !isShown(r) && !isLineEnd {
			copy(shown[at:at+size], "????")
		}
		at += size
	}
	return shown
}

// isShown reports whether a character may be printed as it is.
func isShown(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) }

// hasCredentials reports whether a value may be a URL with a user, a password or a query in it,
// which may hold a token.
func hasCredentials(value string) bool {
	return strings.ContainsAny(value, "@?") && strings.Contains(value, "//")
}

// DecodeBase64 reads the standard and the URL alphabet, padded or not.
func DecodeBase64(s string) ([]byte, error) {
	// Keys come from many tools, and no character means different things in the two alphabets.
	s = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s, "="))
	b, err := base64.RawStdEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, errors.New("it is not base64")
	}
	return b, nil
}
