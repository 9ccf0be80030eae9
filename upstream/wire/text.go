package wire

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Clip cuts a text off after a number of bytes, and marks that it did.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Printable replaces what people cannot see in a text, or a terminal could act on.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// SingleLine returns value without line breaks, for the stdio transport, which frames messages by
// line. Valid JSON has them only between tokens, so that no token changes.
func SingleLine(value []byte) []byte {
	if !bytes.ContainsAny(value, "\r\n") {
		return value
	}
	// Compact works in place. Raw strings stay, or escapes would change.
	compact := jsontext.Value(bytes.Clone(value))
	if err := compact.Compact(jsontext.PreserveRawStrings(true)); err != nil {
		return value
	}
	return compact
}

// Escaped returns JSON with escapes in place of the characters that are not to be shown, so that it
// keeps its meaning.
func Escaped(text []byte, isShown func(r rune) bool) []byte {
	escaped := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch high, low := utf16.EncodeRune(r); {
		case isShown(r):
			escaped = utf8.AppendRune(escaped, r)
		case r > 0xffff:
			escaped = fmt.Appendf(escaped, `\u%04x\u%04x`, high, low)
		default:
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		}
	}
	return escaped
}

// maxIndented bounds what is indented, in bytes.
const maxIndented = 64 << 10

// Indented returns a JSON value as people read it. A large one stays as it is: whoever nests it as
// deep as [MaxDepth] would make it 130 times as large.
func Indented(value jsontext.Value) string {
	if len(value) > maxIndented {
		return string(value)
	}
	text := value.Clone()
	if err := text.Indent(jsontext.WithIndent("  ")); err != nil {
		return string(value)
	}
	return string(text)
}
