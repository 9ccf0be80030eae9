package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/promptweir/promptweir/config"
)

const (
	// maxLine bounds a text in a row or sentence, maxText a text in a box, in bytes.
	maxLine = 400
	maxText = 100_000
)

// line returns foreign text for a row or a sentence.
func line(s string) string { return visible(cut(s, maxLine), " ") }

// text returns foreign text with its lines.
func text(s string) string { return visible(cut(s, maxText), "\n") }

// cut shortens a text to a bound.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + fmt.Sprintf("… (%s more)",
		count(len(s)-most, "byte"))
}

// visible replaces characters that are invisible, or change how others are shown, by their code
// points, and line ends by lineEnd.
func visible(s, lineEnd string) string {
	var out strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			out.WriteString(lineEnd)
		case r == '\t', r == '\u200d': // a tab, and the joiner in emoji
			out.WriteRune(r)
		case r == '\r':
		case config.IsInvisible(r):
			if unicode.Is(unicode.Variation_Selector, r) {
				continue // part of most emoji
			}
			fmt.Fprintf(&out, "⟨%U⟩", r)
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// sentence makes a clause a sentence.
func sentence(clause string) string {
	if clause == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(clause)
	if clause = string(unicode.ToUpper(first)) + clause[size:]; strings.HasSuffix(clause, "?") {
		return clause
	}
	return clause + "."
}

// count returns a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return number(n) + " " + thing + "s"
}

// number returns a number with narrow spaces between thousands.
func number(n int) string {
	digits := strconv.Itoa(n)
	if len(digits) < 5 { // four digits are readable
		return digits
	}
	var out strings.Builder
	for i, digit := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			out.WriteRune('\u202f')
		}
		out.WriteRune(digit)
	}
	return out.String()
}

// ago returns how long ago a time was, as precisely as a reader needs.
func ago(now, t time.Time) string {
	const day = 24 * time.Hour
	switch d := now.Sub(t); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(0, d/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%d days", d/day)
	}
}
