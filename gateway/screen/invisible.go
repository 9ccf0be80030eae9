package screen

import (
	"strings"
	"unicode/utf8"
)

// Joiners shape emoji and some scripts, and are invisible anywhere else.
const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
)

// isInvisible reports whether nobody sees a character: tags, which spell text that only machines read, the controls that turn
// the direction of text, what has no width, and variation selectors beyond those that emoji have.
func isInvisible(r rune) bool {
	switch {
	case r >= 0xe0000 && r <= 0xe007f, // tags
		r >= 0xe0100 && r <= 0xe01ef,                           // variation selectors supplement
		r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, // bidirectional embeddings, overrides and isolates
		r == 0x200e, r == 0x200f, r == 0x061c, // bidirectional marks
		r == 0x200b, r >= 0x2060 && r <= 0x2064, r == 0xfeff, r == 0x180e, // no width
		r == zeroWidthNonJoiner, r == zeroWidthJoiner:
		return true
	}
	return false
}

// hasInvisible reports whether a text has a character that nobody sees.
func hasInvisible(text string) bool { return len(visible(text)) < len(text) }

// visible returns a text without the characters that nobody sees. A joiner between two visible characters that are not
// ASCII joins them, and stays.
func visible(text string) string {
	if !strings.ContainsFunc(text, isInvisible) {
		return text
	}
	var out strings.Builder
	before := rune(0) // the last that stays
	for i, r := range text {
		switch {
		case r == zeroWidthJoiner, r == zeroWidthNonJoiner:
			next, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):])
			if !joinable(before) || !joinable(next) {
				continue
			}
		case isInvisible(r):
			continue
		}
		out.WriteRune(r)
		before = r
	}
	return out.String()
}

func joinable(r rune) bool { return r >= utf8.RuneSelf && r != utf8.RuneError && !isInvisible(r) }
