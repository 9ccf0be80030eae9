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

// Clip truncates text to at most the given number of bytes, and appends "…" if it was longer.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// Printable replaces control characters and invisible characters by U+FFFD.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// SingleLine returns a JSON value without line breaks, because the stdio transport separates messages by lines. In valid JSON, line breaks
// are only between tokens, so no token changes. An invalid value is returned unchanged.
func SingleLine(value []byte) []byte {
	if !bytes.ContainsAny(value, "\r\n") {
		return value
	}
	// Clone, because Compact works in place. Without PreserveRawStrings, it would change escapes.
	compact := jsontext.Value(bytes.Clone(value))
	if err := compact.Compact(jsontext.PreserveRawStrings(true)); err != nil {
		return value
	}
	return compact
}

// Escaped returns JSON with escapes for the characters for which isShown is false. The JSON keeps
// its meaning.
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

// maxIndented bounds the value to indent, in bytes.
const maxIndented = 64 << 10

// Indented returns a JSON value with indentation, for people. A value over maxIndented is
// unchanged: with nesting as deep as [MaxDepth], it could become 130 times as large.
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
