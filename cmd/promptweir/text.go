package main

import (
	"strings"
	"unicode"
)

// oneLine makes a text that a server sent safe to stand in a terminal's table: one line, nothing that moves the cursor
// or turns the reading direction.
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

// manyLines does the same but keeps line ends and tabs.
func manyLines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return printable(r)
	}, text)
}

// printable returns r, or U+FFFD for what a terminal would act on.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return unicode.ReplacementChar
}
