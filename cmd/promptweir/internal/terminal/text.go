package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/promptweir/promptweir/upstream/wire"
)

// maxLine bounds a printed sentence in bytes: it may quote a server's text of any length.
const maxLine = 500

// Printable returns a writer to w that replaces control characters, and characters that are
// invisible or change the reading direction. Each Write must end at the end of a character.
func Printable(w io.Writer) io.Writer {
	return printable{w, func(text []byte) []byte { return bytes.Map(orReplacement, text) }}
}

// PrintableJSON returns a writer of JSON to w. It escapes the characters that [Printable] would replace, so
// the JSON keeps its meaning.
func PrintableJSON(w io.Writer) io.Writer {
	return printable{w, func(text []byte) []byte { return wire.Escaped(text, isShown) }}
}

// printable is a writer that converts each text with the function make, and writes the result to the writer to.
type printable struct {
	to   io.Writer
	make func(text []byte) []byte
}

func (w printable) Write(text []byte) (int, error) {
	if _, err := w.to.Write(w.make(text)); err != nil {
		return 0, err
	}
	return len(text), nil // io.Writer requires the number of the caller's bytes
}

// isShown reports whether a character may be printed.
func isShown(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) }

// fillers are invisible, although Unicode counts them as letters, marks and symbols.
const fillers = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"

// Showable reports whether a value can be shown unchanged on a line. Completion offers no other values.
func Showable(value string) bool {
	return !strings.ContainsAny(value, fillers) &&
		!strings.ContainsFunc(value, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) })
}

func orReplacement(r rune) rune {
	if isShown(r) {
		return r
	}
	return unicode.ReplacementChar
}

// Line returns a text as one printable line, of any length.
func Line(text string) string {
	return strings.Map(orReplacement, strings.Join(strings.Fields(text), " "))
}

// Indented indents the lines of a text after the first by two spaces. At the left margin, a
// server's line could look like a line of the program, such as the name of the next speaker.
func Indented(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if i > 0 && line != "" {
			lines[i] = "  " + line
		}
	}
	return strings.Join(lines, "\n")
}

// PrintJSON prints a value as indented JSON. Raw JSON in the value keeps the spelling of its numbers and
// printable characters.
func PrintJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(PrintableJSON(w))
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// OneLine returns a server's text as one line, cut after about 500 bytes.
func OneLine(text string) string {
	return wire.Clip(strings.Join(strings.Fields(text), " "), maxLine)
}

// Count returns a number of things, such as "1 prompt" or "2 prompts".
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Duration returns a duration in whole seconds, minutes, hours or days.
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(0, d/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d days", d/day)
}

// InBrackets returns a space and the text in brackets, as the end of a sentence, or "" if text is empty.
func InBrackets(text string) string {
	if text == "" {
		return ""
	}
	return " (" + OneLine(text) + ")"
}
