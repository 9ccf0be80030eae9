package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxReport bounds a sentence in the output, in bytes, because it may quote a server.
const maxReport = 500

// printableWriter replaces what a terminal could act on, and what changes the reading direction or shows nothing. All that the
// commands print passes through it, since names, messages and the paths of files come from others. Each Write must end at the end
// of a character.
type printableWriter struct{ io.Writer }

func (w printableWriter) Write(text []byte) (int, error) {
	shown := bytes.Map(orReplacement, text)
	if _, err := w.Writer.Write(shown); err != nil {
		return 0, err
	}
	return len(text), nil
}

// jsonWriter escapes what printableWriter would replace, so that JSON keeps its meaning.
type jsonWriter struct{ io.Writer }

func (w jsonWriter) Write(text []byte) (int, error) {
	shown := make([]byte, 0, len(text))
	for rest := text; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		switch high, low := utf16.EncodeRune(r); {
		case isShown(r):
			shown = utf8.AppendRune(shown, r)
		case r > 0xffff:
			shown = fmt.Appendf(shown, `\u%04x\u%04x`, high, low)
		default:
			shown = fmt.Appendf(shown, `\u%04x`, r)
		}
		rest = rest[size:]
	}
	if _, err := w.Writer.Write(shown); err != nil {
		return 0, err
	}
	return len(text), nil
}

// isShown reports whether a character may be printed as it is.
func isShown(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) }

// orReplacement returns the character that is printed for a character.
func orReplacement(r rune) rune {
	if isShown(r) {
		return r
	}
	return unicode.ReplacementChar
}

// shownLine makes one line of a text, as it is printed.
func shownLine(text string) string {
	return strings.Map(orReplacement, strings.Join(strings.Fields(text), " "))
}

// printJSON prints a value indented. Raw JSON in it keeps its numbers and its printable characters as they are spelled.
func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(jsonWriter{w})
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// oneLine makes one line of text from a server, cut after about limit bytes.
func oneLine(text string, limit int) string {
	line := strings.Join(strings.Fields(text), " ")
	if len(line) <= limit {
		return line
	}
	for limit > 0 && !utf8.RuneStart(line[limit]) {
		limit--
	}
	return line[:limit] + "…"
}

// count returns a number of things, such as "1 prompt" or "2 prompts".
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// inBrackets returns text to append to a sentence, "" for none.
func inBrackets(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}
