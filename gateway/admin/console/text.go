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
	// maxLine bounds a text in a row or sentence, in bytes.
	maxLine = 400
	// maxText bounds a text in a box, in bytes.
	maxText = 100_000
)

// line returns foreign text for a row or a sentence: cut to maxLine bytes, on one line, and with code
// points for invisible characters.
func line(s string) string { return visible(cut(s, maxLine), " ") }

// text returns foreign text for a box: cut to maxText bytes, and with code points for invisible
// characters.
func text(s string) string { return visible(cut(s, maxText), "\n") }

// cut shortens a text to limit bytes, and appends the number of missing bytes.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + fmt.Sprintf("… (%s more)", count(len(s)-limit, "byte"))
}

// visible replaces invisible characters, and characters that change the look of others, with their code
// points. It replaces line ends with lineEnd.
func visible(s, lineEnd string) string {
	var out strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			out.WriteString(lineEnd)
		case r == '\t', r == '\u200d': // U+200D joins emoji
			out.WriteRune(r)
		case r == '\r':
		case config.IsInvisible(r):
			if unicode.Is(unicode.Variation_Selector, r) {
				continue // many emoji contain a selector, so a code point would disturb
			}
			fmt.Fprintf(&out, "⟨%U⟩", r)
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// sentence turns a clause into a sentence: with a capital letter, and a full stop unless it ends in a
// question mark.
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

// count returns a number with a noun, such as "1 prompt" or "12 prompts".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return number(n) + " " + thing + "s"
}

// number formats n with narrow spaces as thousands separators.
func number(n int) string {
	digits := strconv.Itoa(n)
	if len(digits) < 5 { // four digits need no space
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

// ago returns the time from t to now in one or two units, such as "5 min" or "3 days".
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
