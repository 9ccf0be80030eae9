package screen

import (
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// smallText is the size in bytes up to which a text is matched without checks for cancellation. The
// programs of patterns are bounded, so such a match is fast.
const smallText = 4 << 10

// matches is like re.MatchString, but returns soon after the pass is canceled. Its result is then
// meaningless.
func (p *pass) matches(re *regexp.Regexp, text string) bool {
	if p.canceled == nil || len(text) <= smallText {
		return re.MatchString(text)
	}
	// Search for the literal prefix first: MatchReader takes a hundred times as long to find it.
	literal, whole := re.LiteralPrefix()
	return strings.Contains(text, literal) && (whole || re.MatchReader(p.reader(text)))
}

// remove returns a text without the matches of re. Unlike [regexp.Regexp.ReplaceAllLiteralString], it
// returns soon after the pass is canceled. Each search may read the text to its end, so the time may
// grow with the square of the text's length.
func (p *pass) remove(re *regexp.Regexp, text string) string {
	if p.canceled == nil || len(text) <= smallText {
		return re.ReplaceAllLiteralString(text, "")
	}
	var out strings.Builder
	end := 0 // end of the last match
	match := re.FindReaderIndex(p.reader(text))
	later := continued(re)
	for match != nil && !isClosed(p.canceled) {
		out.WriteString(text[end:match[0]])
		end = match[1]
		from := end
		if match[0] == match[1] { // an empty match, such as a word boundary
			_, width := utf8.DecodeRuneInString(text[from:])
			from += width
		}
		if from >= len(text) {
			break
		}
		_, width := utf8.DecodeLastRuneInString(text[:from])
		groups := later.FindReaderSubmatchIndex(p.reader(text[from-width:]))
		if groups == nil {
			break
		}
		match = []int{from - width + groups[2], from - width + groups[3]}
	}
	return out.String() + text[end:]
}

// continued returns a regular expression that skips one character and captures the next match of re
// in group 1. It must see the skipped character: otherwise ^ and \b would match as at the beginning of
// the text.
func continued(re *regexp.Regexp) *regexp.Regexp {
	parsed, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		panic(err) // cannot happen: re was compiled from this text
	}
	return regexp.MustCompile(`\A(?s:.)(?s:.*?)(` + parsed.String() + `)`)
}

// reader returns a reader of the text that reports io.EOF early if the pass is canceled.
func (p *pass) reader(text string) io.RuneReader {
	return &runeReader{text: text, canceled: p.canceled}
}

type runeReader struct {
	text     string
	canceled <-chan struct{}
	at       int // offset of the next rune
	read     int // number of ReadRune calls
}

func (r *runeReader) ReadRune() (c rune, size int, err error) {
	if r.read++; r.at == len(r.text) || r.read%64 == 0 && isClosed(r.canceled) {
		return 0, 0, io.EOF
	}
	c, size = utf8.DecodeRuneInString(r.text[r.at:])
	r.at += size
	return c, size, nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Joiners join the characters of emoji and of some scripts. Beside other characters they are
// invisible.
const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
)

// isInvisible reports whether a character is invisible: a tag (tags spell text that only machines
// read), a control of text direction or of the terminal, a character without width, or a variation
// selector of the supplement. See isSelector for the other selectors.
func isInvisible(r rune) bool {
	if r < utf8.RuneSelf { // most text is ASCII
		return r < ' ' && r != '\t' && r != '\n' && r != '\f' && r != '\r' || r == 0x7f
	}
	switch {
	case r >= 0xe0001 && r <= 0xe01ef, // tags, variation selectors supplement, and the unassigned characters between them
		r >= 0x202a && r <= 0x202e, r == 0x200e, r == 0x200f, r == 0x061c, // bidirectional embeddings, overrides and marks
		r == 0x200b, r >= 0x2060 && r <= 0x206f, r == 0xfeff, r == 0x180e, r == 0xad, // no width, bidirectional isolates
		r >= 0x80 && r <= 0x9f && r != 0x85,                                                    // controls
		r >= 0xfff9 && r <= 0xfffb, r >= 0x1bca0 && r <= 0x1bca3, r >= 0x1d173 && r <= 0x1d17a, // annotations and formats
		r == zeroWidthNonJoiner, r == zeroWidthJoiner:
		return true
	}
	return unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// isSelector reports whether a character is a variation selector: it selects the look of the previous
// character in emoji and some scripts.
func isSelector(r rune) bool {
	return unicode.Is(unicode.Variation_Selector, r)
}

// hasInvisible reports whether a text contains an invisible character.
func hasInvisible(text string) bool { return len(visible(text)) < len(text) }

// visible returns a text without invisible characters. It leaves a joiner between two visible
// characters outside of ASCII, and one selector after a character that may have variants. Longer
// sequences are removed, because they can encode hidden text.
func visible(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return isInvisible(r) || isSelector(r) }) {
		return text
	}
	var out strings.Builder
	before := rune(0) // the last character in out
	for i, r := range text {
		switch {
		case r == zeroWidthJoiner, r == zeroWidthNonJoiner:
			next, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):])
			if !joinable(before) || !joinable(next) || isSelector(next) {
				continue
			}
		// A selector is not selectable, so only the first of several selectors stays.
		case isInvisible(r), isSelector(r) && !selectable(before):
			continue
		}
		out.WriteRune(r)
		before = r
	}
	return out.String()
}

// joinable reports whether a joiner may stand beside a character: a visible character outside of ASCII.
func joinable(r rune) bool { return utf8.RuneLen(r) > 1 && r != utf8.RuneError && !isInvisible(r) }

// selectable reports whether a character may have variants. In ASCII, only the characters of keycap
// emoji have variants.
func selectable(r rune) bool {
	return joinable(r) && !isSelector(r) || r >= '0' && r <= '9' || r == '#' || r == '*'
}
