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

// maxLine bounds a sentence in the output, in bytes, because it may quote a server.
const maxLine = 500

// Printable returns a writer to w that replaces what a terminal could act on, and what changes the
// reading direction or shows nothing. Each Write must end at the end of a character.
func Printable(w io.Writer) io.Writer {
	return printable{w, func(text []byte) []byte { return bytes.Map(orReplacement, text) }}
}

// PrintableJSON returns a writer to w that escapes what [Printable] would replace, so that JSON
// keeps its meaning.
func PrintableJSON(w io.Writer) io.Writer {
	return printable{w, func(text []byte) []byte { return wire.Escaped(text, isShown) }}
}

// printable writes what has been made of each text.
type printable struct {
	to   io.Writer
	make func(text []byte) []byte
}

func (w printable) Write(text []byte) (int, error) {
	if _, err := w.to.Write(w.make(text)); err != nil {
		return 0, err
	}
	return len(text), nil // of the caller's bytes: another count would be an error to it
}

// isShown reports whether a character may be printed as it is.
func isShown(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) }

// fillers show nothing, although Unicode counts them as letters, marks and symbols.
const fillers = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"

// Showable reports whether all of a value can be shown on a line. A person can only choose what is
// shown, so a value that cannot be is not offered.
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

// Line makes one line of a text, as it is printed.
func Line(text string) string {
	return strings.Map(orReplacement, strings.Join(strings.Fields(text), " "))
}

// Indented returns a text whose lines after the first begin with two blanks: at the left margin, a
// server's line could pass for one of the program's own, such as the next speaker's.
func Indented(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if i > 0 && line != "" {
			lines[i] = "  " + line
		}
	}
	return strings.Join(lines, "\n")
}

// PrintJSON prints a value indented. Raw JSON in it keeps its numbers and its printable characters
// as they are spelled.
func PrintJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(PrintableJSON(w))
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// OneLine makes one line of text from a server, cut after about 500 bytes.
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

// Duration says how long something took, as precisely as a reader needs.
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

// InBrackets returns text to append to a sentence, "" for none.
func InBrackets(text string) string {
	if text == "" {
		return ""
	}
	return " (" + OneLine(text) + ")"
}

// OrList writes alternatives: a, b or c.
func OrList(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
