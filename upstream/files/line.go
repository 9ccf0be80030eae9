package files

import (
	"bytes"
	"strings"

	"github.com/promptweir/promptweir/upstream/wire"
)

// line is the command line that people typed after a command. Texts are contents of JSON strings.
type line struct {
	typed []byte
	// words are the words of the line. A missing word is nil.
	words [][]byte
	// isUsed is true if a placeholder has received a part of the line.
	isUsed bool
}

// line returns the command line from the values of a prompt's arguments. A missing value is nil.
func (p *Prompt) line(values [][]byte) *line {
	var given []string
	isWhole := true // true if no value is missing before a given value
	for i, value := range values {
		if value != nil {
			// Unescape the value, because \n in JSON is white space that separates words. There is
			// no error, because the value is part of a valid request.
			text, _ := wire.Text([]byte(`"` + string(value) + `"`))
			isWhole = isWhole && len(given) == i
			given = append(given, text)
		}
	}
	l := &line{typed: content(strings.Join(given, " ")), words: values}
	if words, ok := splitLine(strings.Join(given, " ")); p.isLine || ok && isWhole && isTorn(given) {
		l.words = make([][]byte, len(words))
		for i, word := range words {
			l.words[i] = content(word)
		}
	}
	for _, s := range p.segments {
		l.isUsed = l.isUsed || s.gap.word == allWords || s.gap.word > 0 && l.word(s.gap) != nil
	}
	return l
}

// isTorn reports whether values are pieces of a command line with quoted words. Claude Code cuts the line at blanks, even within quotes,
// and gives each argument one piece. A value with a blank comes from a form instead.
func isTorn(values []string) bool {
	quoted := false
	for _, value := range values {
		if value == "" || strings.ContainsAny(value, " \t\r\n") {
			return false
		}
		quoted = quoted || strings.ContainsAny(value[:1], `"'`)
	}
	return quoted
}

// word returns the word of a gap, or nil if the word is missing.
func (l *line) word(g gap) []byte {
	if int(g.word) > len(l.words) {
		return nil
	}
	return l.words[g.word-1]
}

// fill returns the text for a gap of the command line, as the content of a JSON string.
func (l *line) fill(g gap) []byte {
	switch {
	case g.word == allWords:
		return l.typed
	case g.word == restOfLine && (l.isUsed || len(l.typed) == 0):
		return nil
	case g.word == restOfLine && g.missing != "":
		return append(content(g.missing), l.typed...)
	case g.word == restOfLine:
		return append([]byte(`\n\nARGUMENTS: `), l.typed...)
	case g.takesRest && int(g.word) <= len(l.words):
		return bytes.Join(l.words[g.word-1:], []byte(" "))
	}
	if word := l.word(g); word != nil {
		return word
	}
	return []byte(g.missing)
}

// splitLine splits a command line into words as Claude Code does: quotes keep blanks together, and
// a backslash outside of quotes takes the next character literally. If a quote has no end, as with
// an apostrophe, the rest of the line belongs to its word, and ok is false. Unlike in Claude Code,
// a pipe or a semicolon does not end the line.
func splitLine(text string) (words []string, ok bool) {
	var word strings.Builder
	isWord, quote, opened := false, byte(0), 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0 && c == quote:
			word.WriteString(text[opened+1 : i])
			quote = 0
		case quote == '"' && c == '\\': // an escaped quote does not end the quotation
			i++
		case quote != 0:
		case c == '"' || c == '\'':
			quote, opened, isWord = c, i, true
		case strings.IndexByte(" \t\r\n", c) >= 0:
			if isWord {
				words = append(words, word.String())
			}
			word.Reset()
			isWord = false
		default:
			if c == '\\' && i+1 < len(text) {
				i++
			}
			word.WriteByte(text[i])
			isWord = true
		}
	}
	if quote != 0 {
		word.WriteString(text[opened:])
	}
	if isWord {
		words = append(words, word.String())
	}
	return words, quote == 0
}
