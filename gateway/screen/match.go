package screen

import (
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// smallText is the size up to which a text is matched in one go, in bytes. With the bound of a
// pattern's program, that takes a moment.
const smallText = 4 << 10

// matches is re.MatchString, but returns soon after the pass was canceled. What it returns then
// means nothing.
func (p *pass) matches(re *regexp.Regexp, text string) bool {
	if p.canceled == nil || len(text) <= smallText {
		return re.MatchString(text)
	}
	// Which a reader would take a hundred times as long to find.
	if literal, whole := re.LiteralPrefix(); whole || !strings.Contains(text, literal) {
		return strings.Contains(text, literal)
	}
	return re.MatchReader(p.reader(text))
}

// remove returns a text without the matches, and is to [regexp.Regexp.ReplaceAllLiteralString] as
// matches is to MatchString. Looking for the end of each match in the rest of the text takes time
// in proportion to the square of its length.
func (p *pass) remove(re *regexp.Regexp, text string) string {
	if p.canceled == nil || len(text) <= smallText {
		return re.ReplaceAllLiteralString(text, "")
	}
	var kept strings.Builder
	end := 0 // of the last match
	match := re.FindReaderIndex(p.reader(text))
	later := continued(re)
	for match != nil && !isClosed(p.canceled) {
		kept.WriteString(text[end:match[0]])
		end = match[1]
		from := end
		if match[0] == match[1] { // an empty match, such as a boundary of a word
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
	return kept.String() + text[end:]
}

// continued returns a regular expression whose first group is the first match of re after the first
// character. A search that began at the character after it would take that for the beginning of the
// text.
func continued(re *regexp.Regexp) *regexp.Regexp {
	parsed, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		panic(err) // it was compiled before
	}
	return regexp.MustCompile(`\A(?s:.)(?s:.*?)(` + parsed.String() + `)`)
}

// reader returns a reader of the text that ends early when the pass was canceled.
func (p *pass) reader(text string) io.RuneReader {
	return &runeReader{text: text, canceled: p.canceled}
}

type runeReader struct {
	text     string
	canceled <-chan struct{}
	at       int
	read     int // runes
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
