package screen

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Joiners shape emoji and some scripts. Anywhere else they are invisible.
const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
)

// isInvisible reports whether a character cannot be seen: tags, which spell text that only machines
// read; controls of the direction of text or of the terminal; characters without width; and
// variation selectors other than those of emoji.
func isInvisible(r rune) bool {
	if r < utf8.RuneSelf { // most text is ASCII
		return r < ' ' && r != '\t' && r != '\n' && r != '\f' && r != '\r' || r == 0x7f
	}
	switch {
	case r >= 0xe0000 && r <= 0xe0fff, // tags, variation selectors supplement, and the unassigned ones beside them
		r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x206f, // bidirectional embeddings, overrides and isolates
		r == 0x200e, r == 0x200f, r == 0x061c, // bidirectional marks
		r == 0x200b, r >= 0x2060 && r <= 0x2065, r == 0xfeff, r == 0x180e, r == 0xad, // no width
		r >= 0x80 && r <= 0x9f && r != 0x85,                                                    // controls
		r >= 0xfff9 && r <= 0xfffb, r >= 0x1bca0 && r <= 0x1bca3, r >= 0x1d173 && r <= 0x1d17a, // annotations and formats
		r == zeroWidthNonJoiner, r == zeroWidthJoiner:
		return true
	}
	return unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// isSelector reports whether a character selects the look of the one before it, as emoji and some
// scripts need.
func isSelector(r rune) bool {
	return r >= 0xfe00 && r <= 0xfe0f || r >= 0x180b && r <= 0x180d || r == 0x180f
}

// hasInvisible reports whether a text contains an invisible character.
func hasInvisible(text string) bool { return len(visible(text)) < len(text) }

// visible returns a text without its invisible characters. A joiner between two visible characters
// outside of ASCII stays, and so does a single selector after a character that has variants:
// sequences of either can encode hidden text.
func visible(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return isInvisible(r) || isSelector(r) }) {
		return text
	}
	var out strings.Builder
	before := rune(0) // the last one that stays, so that a removed one cannot shield the next
	for i, r := range text {
		switch {
		case r == zeroWidthJoiner, r == zeroWidthNonJoiner:
			next, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):])
			if !joinable(before) || !joinable(next) || isSelector(next) {
				continue
			}
		case isInvisible(r), isSelector(r) && !selectable(before):
			continue
		}
		out.WriteRune(r)
		before = r
	}
	return out.String()
}

// joinable reports whether a joiner may stand beside a character.
func joinable(r rune) bool { return r >= utf8.RuneSelf && r != utf8.RuneError && !isInvisible(r) }

// selectable reports whether a character may have variants. In ASCII, only those of keycap emoji
// have.
func selectable(r rune) bool {
	return joinable(r) && !isSelector(r) || r >= '0' && r <= '9' || r == '#' || r == '*'
}
