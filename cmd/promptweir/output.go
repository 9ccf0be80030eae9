package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// maxReport bounds a sentence in the output, in bytes, because it may quote a server.
const maxReport = 500

// printJSON prints a value indented. Raw JSON in it keeps its numbers and strings as they are spelled.
func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// oneLine makes text from a server safe to print in a line: no line breaks, and nothing that moves the cursor or changes the
// reading direction. It is cut after about limit bytes.
func oneLine(text string, limit int) string {
	var line strings.Builder
	for i, r := range strings.Join(strings.Fields(text), " ") {
		if i >= limit {
			line.WriteRune('…')
			break
		}
		line.WriteRune(printable(r))
	}
	return line.String()
}

// manyLines is oneLine for text that keeps its line breaks, tabs and length.
func manyLines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return printable(r)
	}, text)
}

// printable returns U+FFFD in place of a rune that a terminal could act on.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return unicode.ReplacementChar
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
