package hclread

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// span is a run of bytes in a source.
type span struct{ start, end int }

// maskedSource is a source with a mask in place of each secret piece of a line.
type maskedSource struct {
	text   []byte
	pieces []span // of the source, in order
	at     []span // where in text the mask for each piece is
}

// maskSource keeps the line numbers: a secret of several lines leaves a mask in each line.
func maskSource(src []byte, secrets []span) *maskedSource {
	m := &maskedSource{pieces: pieces(src, secrets)}
	from := 0
	for _, p := range m.pieces {
		m.text = append(m.text, src[from:p.start]...)
		start := len(m.text)
		m.text = append(m.text, Masked...)
		m.at = append(m.at, span{start, len(m.text)})
		from = p.end
	}
	m.text = append(m.text, src[from:]...)
	return m
}

// shift returns the range in the masked text for a range of the source. A range that touches a mask
// grows to include it.
func (m *maskedSource) shift(r *hcl.Range) *hcl.Range {
	if r == nil {
		return nil
	}
	moved := *r
	moved.Start.Byte, _ = m.move(r.Start.Byte)
	_, moved.End.Byte = m.move(r.End.Byte)
	return &moved
}

// move returns an offset in the masked text; one inside a mask becomes both ends of the mask.
func (m *maskedSource) move(offset int) (start, end int) {
	delta := 0
	for i, p := range m.pieces {
		if offset < p.start {
			break
		}
		if offset < p.end {
			return m.at[i].start, m.at[i].end
		}
		delta = m.at[i].end - p.end
	}
	return offset + delta, offset + delta
}

// pieces cuts spans into the text of single lines, in order and without overlap.
func pieces(src []byte, secrets []span) []span {
	secrets = slices.SortedFunc(slices.Values(secrets), func(a, b span) int { return cmp.Compare(a.start, b.start) })
	var out []span
	from := 0
	for _, s := range secrets {
		for start := max(s.start, from); start < s.end; {
			end := s.end
			if n := bytes.IndexByte(src[start:end], '\n'); n >= 0 {
				end = start + n
			}
			text := src[start:end]
			// Indentation stays, and an empty line gets no mask.
			left := len(text) - len(bytes.TrimLeft(text, " \t\r"))
			if right := len(bytes.TrimRight(text, " \t\r")); left < right {
				out = append(out, span{start + left, start + right})
			}
			start = end + 1
		}
		from = max(from, s.end)
	}
	return out
}

// attributeNames are the names of attributes, wherever they stand: those of secrets, and all
// others.
type attributeNames struct{ secret, shown map[string]bool }

// secretSpans finds the values of secret attributes. It works on tokens, so that it finds them in a
// file that does not parse, and it masks too much rather than too little: a name is secret in every
// block. Where isBroken says that the file does not parse, what is assigned to an unknown name
// counts as secret as well: the name may be misspelt, or one of a map of headers.
func (names attributeNames) secretSpans(tokens hclsyntax.Tokens, isBroken bool) []span {
	var spans []span
	for i := 0; i < len(tokens); i++ {
		// Whatever follows the name counts as its value, since the file may not parse.
		if !names.startsSecret(tokens, i, isBroken) {
			continue
		}
		value := valueStart(tokens, i)
		end := valueEnd(tokens, value)
		spans = append(spans, span{tokens[value-1].Range.End.Byte, tokens[end].Range.Start.Byte})
		i = max(i, end-1) // inside a value, names are part of it
	}
	return spans
}

// startsSecret reports whether a token is the name of a secret attribute, and not that of a
// function, as in env("X").
func (names attributeNames) startsSecret(tokens hclsyntax.Tokens, i int, isBroken bool) bool {
	isWord := tokens[i].Type == hclsyntax.TokenIdent
	if !isWord && tokens[i].Type != hclsyntax.TokenQuotedLit || i+2 >= len(tokens) {
		return false
	}
	next := tokens[i+1].Type
	if !isWord {
		next = tokens[i+2].Type // after the quote: "headers" = {} and "headers": {} are mistakes, but have a value
	}
	isAssigned := next == hclsyntax.TokenEqual || next == hclsyntax.TokenColon
	name := string(tokens[i].Bytes)
	if names.secret[strings.ToLower(name)] {
		return isAssigned || isWord && next != hclsyntax.TokenOParen
	}
	return isBroken && isAssigned && (!names.shown[name] || takesKey(name))
}

// credentialSpans finds what may be the user and the password of a URL, up to the last @ of a word.
func credentialSpans(content []byte) []span {
	var spans []span
	for _, at := range credentials().FindAllIndex(content, -1) {
		spans = append(spans, span{at[0] + len("//"), at[1] - len("@")})
	}
	return spans
}

// Lazily returns a function that compiles an expression at its first call: a command that needs none
// does not wait for them.
func Lazily(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// credentials may have templates in them, and escaped quotes.
var credentials = Lazily(`//(\$\{[^}\n]*\}|\\[^\n]|[^\s"])*@`)

// valueStart returns the index of the token after NAME, NAME = or "NAME" =.
func valueStart(tokens hclsyntax.Tokens, i int) int {
	i++
	for i < len(tokens)-1 {
		switch tokens[i].Type {
		case hclsyntax.TokenCQuote, hclsyntax.TokenEqual, hclsyntax.TokenColon:
			i++
		default:
			return i
		}
	}
	return i
}

// valueEnd returns the index of the token that ends the value at i: the end of its line or of its
// block.
func valueEnd(tokens hclsyntax.Tokens, i int) int {
	depth := 0
	for ; i < len(tokens)-1; i++ {
		t := tokens[i].Type
		isEnd := bracket(t) < 0 || t == hclsyntax.TokenNewline || t == hclsyntax.TokenComment
		if depth == 0 && isEnd {
			return i
		}
		depth += bracket(t)
	}
	return min(i, len(tokens)-1)
}

// Masked is shown in place of every sensitive value.
const Masked = "(sensitive)"

// PEMStart begins every block of a PEM file.
const PEMStart = "-----BEGIN "

var errPEM = errors.New("is PEM itself; write the path of a file that contains it")

// Text is one string of the configuration.
type Text struct {
	Value string
	At    hcl.Range
	// Sensitive means that no message may show the value.
	Sensitive bool
	// Unset means that the value depends on an unset variable: it is empty, and there is nothing to
	// check.
	Unset bool
}

// newText makes a Text of a string that may be marked or unknown.
func newText(v cty.Value, at hcl.Range, sensitive bool) Text {
	v, marks := v.Unmark()
	t := Text{At: at, Sensitive: sensitive || len(marks) > 0}
	if !v.IsKnown() {
		t.Unset = true
		return t
	}
	t.Value = v.AsString()
	return t
}

// String is the value as a message may show it.
func (t Text) String() string {
	if t.Sensitive {
		return Masked
	}
	return strconv.Quote(t.Value)
}

// Printable replaces what a terminal could act on, and what changes the reading direction or shows
// nothing: the author of a file, or of its name, must not decide what a terminal shows.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if isShown(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// printableSource is [Printable] for a file.
func printableSource(content []byte) []byte {
	// A question mark stands in place of each byte, so that offsets stay.
	shown := bytes.Clone(content)
	for at := 0; at < len(content); {
		r, size := utf8.DecodeRune(content[at:])
		isLineEnd := r == '\r' && bytes.HasPrefix(content[at+size:], []byte("\n"))
		if r == utf8.RuneError && size == 1 || !isShown(r) && !isLineEnd {
			copy(shown[at:at+size], "????")
		}
		at += size
	}
	return shown
}

// isShown reports whether a character may be printed as it is.
func isShown(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) }

// hasCredentials reports whether a value may be a URL with a user, a password or a query in it,
// which may hold a token.
func hasCredentials(value string) bool {
	return strings.ContainsAny(value, "@?") && strings.Contains(value, "//")
}

// DecodeBase64 reads the standard and the URL alphabet, padded or not.
func DecodeBase64(s string) ([]byte, error) {
	// Keys come from many tools, and no character means different things in the two alphabets.
	s = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s, "="))
	b, err := base64.RawStdEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, errors.New("it is not base64")
	}
	return b, nil
}
