package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth bounds the nesting of arrays and objects in a message, because the scanner recurses and a stack overflow would end the process.
const MaxDepth = 128

var (
	errDepth    = fmt.Errorf("nested deeper than %d", MaxDepth)
	errEmpty    = errors.New("no JSON value")
	errTrailing = errors.New("bytes after the end of the JSON value")
)

// scanner reads JSON strictly in one pass: RFC 8259 with unique names and Unicode text (RFC 7493).
// It accepts the same texts as a jsontext.Decoder, which FuzzParseObject and FuzzMessages check. It
// reads strings eight bytes at a time, because most bytes of a prompt are in strings.
//
// The scanner exists for large prompts. With jsontext, a get of 1 MB takes 33 % longer, or 18 %
// with an escape in every 13 bytes. For a get of 0.3 KB there is no difference (8 alternating pairs
// over loopback).
type scanner struct {
	raw   []byte
	at    int
	depth int
	// lax is true for values that were checked before, or of which only the JSON delimiters matter.
	// The scanner then does not compare names or check text.
	lax bool
	// isChecked is true for values that were checked before. The scanner then skips nested objects and
	// arrays by their brackets.
	isChecked bool
	// escapes is true if the last string contains an escape. A lax scanner does not set it.
	escapes bool
	// hasNull is true if the scanner has read a null.
	hasNull bool
	// hasOwnMeta is true if the scanner has read a name as in [Message.HasOwnMeta]. A lax scanner does not set it.
	hasOwnMeta bool
	// names are the positions of names in the open objects, and count is their number. All levels
	// share the array, because an array for each level would fill most of the stack.
	names [maxFew]int
	count int
}

// errorAt returns an error with the current position.
func (s *scanner) errorAt(problem string) error {
	if s.at >= len(s.raw) {
		return fmt.Errorf("unexpected EOF after %d bytes", len(s.raw))
	}
	return fmt.Errorf("invalid character %q at byte %d: %s", s.raw[s.at:s.at+1], s.at, problem)
}

func (s *scanner) space() {
	for s.at < len(s.raw) && isSpace(s.raw[s.at]) {
		s.at++
	}
}

func isSpace(c byte) bool { return c <= ' ' && (c == ' ' || c == '\n' || c == '\t' || c == '\r') }

// peek returns the current byte, or 0 at the end.
func (s *scanner) peek() byte {
	if s.at >= len(s.raw) {
		return 0
	}
	return s.raw[s.at]
}

// skip moves past a byte if it is next, and reports whether it did.
func (s *scanner) skip(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

// end returns an error unless only space is left.
func (s *scanner) end() error {
	if s.space(); s.at < len(s.raw) {
		return errTrailing
	}
	return nil
}

func (s *scanner) value() error {
	switch c := s.peek(); c {
	case '{', '[':
		switch {
		case s.isChecked:
			return s.skipNested()
		case c == '{':
			return s.object(nil)
		}
		return s.array(nil)
	case '"':
		return s.text()
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		s.hasNull = true
		return s.literal("null")
	default:
		if c == '-' || isDigit(c) {
			return s.number()
		}
	}
	return s.errorAt("not the start of a JSON value")
}

// object reads an object and calls member, which may be nil, for each of its members.
func (s *scanner) object(member func(quoted, value []byte)) error {
	if empty, err := s.open('}'); empty || err != nil {
		return err
	}
	names := nameSet{outer: s.count}
	for {
		start := s.at
		if s.peek() != '"' {
			return s.errorAt("want the name of a member")
		}
		if err := s.text(); err != nil {
			return err
		}
		quoted := s.raw[start:s.at]
		if !s.lax {
			s.hasOwnMeta = s.hasOwnMeta || s.escapes || bytes.HasPrefix(quoted[1:], []byte(MetaPrefix))
			if !names.add(s, start) {
				return fmt.Errorf("duplicate name %s in an object", Clip(string(quoted), maxClipped))
			}
		}
		if s.space(); !s.skip(':') {
			return s.errorAt("want a colon after a name")
		}
		s.space()
		start = s.at
		if err := s.value(); err != nil {
			return err
		}
		if member != nil {
			// The value has no spare capacity: appending to it must not overwrite its neighbour.
			member(quoted, s.raw[start:s.at:s.at])
		}
		if last, err := s.next('}'); last || err != nil {
			s.count = names.outer
			return err
		}
	}
}

// array reads an array and calls element, which may be nil, for each of its elements.
func (s *scanner) array(element func(value []byte)) error {
	if empty, err := s.open(']'); empty || err != nil {
		return err
	}
	for {
		start := s.at
		if err := s.value(); err != nil {
			return err
		}
		if element != nil {
			// The element has no spare capacity, like the value of a member.
			element(s.raw[start:s.at:s.at])
		}
		if last, err := s.next(']'); last || err != nil {
			return err
		}
	}
}

// open moves past an opening bracket. If the closing bracket follows, it also moves past that and
// returns empty.
func (s *scanner) open(closing byte) (empty bool, err error) {
	if s.depth++; s.depth > MaxDepth {
		return false, errDepth
	}
	s.at++
	s.space()
	return s.closed(closing), nil
}

// next moves past a comma or, after the last element, past the closing bracket.
func (s *scanner) next(closing byte) (last bool, err error) {
	if s.space(); s.closed(closing) {
		return true, nil
	}
	if !s.skip(',') {
		return false, s.errorAt("want a comma or the end after a value")
	}
	s.space()
	return false, nil
}

func (s *scanner) closed(closing byte) bool {
	if !s.skip(closing) {
		return false
	}
	s.depth--
	return true
}

// maxClipped bounds the part of a name in an error, in bytes.
const maxClipped = 64

// maxFew bounds the names that are compared one by one. More names go into a map.
const maxFew = 16

// nameSet is the set of an object's names. Up to maxFew names without escapes are in scanner.names, from index outer on. For other objects,
// all names are in the map many.
type nameSet struct {
	outer int
	many  map[string]struct{}
}

// add adds the last name, which starts at start, and reports whether the name is new.
func (n *nameSet) add(s *scanner, start int) bool {
	quoted := s.raw[start:s.at]
	if n.many == nil && !s.escapes {
		for _, other := range s.names[n.outer:s.count] {
			if bytes.HasPrefix(s.raw[other:], quoted) { // quoted includes the closing quote, so the names are equal
				return false
			}
		}
		if s.count < maxFew {
			s.names[s.count] = start
			s.count++
			return true
		}
	}
	return n.addToMany(s, quoted)
}

func (n *nameSet) addToMany(s *scanner, quoted []byte) bool {
	if n.many == nil {
		n.many = map[string]struct{}{}
		for _, other := range s.names[n.outer:s.count] {
			name, _, _ := bytes.Cut(s.raw[other+1:], []byte{'"'})
			n.many[string(name)] = struct{}{}
		}
	}
	name := string(unquote(quoted))
	_, there := n.many[name]
	n.many[name] = struct{}{}
	return !there
}

func (s *scanner) literal(text string) error {
	if !bytes.HasPrefix(s.raw[s.at:], []byte(text)) {
		return s.errorAt("not the start of a JSON value")
	}
	s.at += len(text)
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (s *scanner) number() error {
	s.skip('-')
	// A digit after a leading 0 is left for the caller, which expects no digit there.
	if !s.skip('0') && !s.digits() {
		return s.errorAt("want a digit")
	}
	if s.skip('.') && !s.digits() {
		return s.errorAt("want a digit after the decimal point")
	}
	if s.skip('e') || s.skip('E') {
		if !s.skip('+') {
			s.skip('-')
		}
		if !s.digits() {
			return s.errorAt("want a digit in the exponent")
		}
	}
	return nil
}

// digits moves past digits and reports whether there were any.
func (s *scanner) digits() bool {
	start := s.at
	for isDigit(s.peek()) {
		s.at++
	}
	return s.at > start
}

// text reads a string.
func (s *scanner) text() error {
	s.at++
	if s.lax {
		return s.skipText()
	}
	s.escapes = false
	for {
		s.plain()
		switch c := s.peek(); {
		case c == '"':
			s.at++
			return nil
		case c == '\\' && s.at+1 < len(s.raw) && isShortEscape(s.raw[s.at+1]):
			s.escapes = true
			s.at += 2
		case c == '\\':
			s.escapes = true
			if err := s.escape(); err != nil {
				return err
			}
		// At the end, peek returns 0, and errorAt reports the end.
		case c < ' ':
			return s.errorAt("control character in a string")
		// plain stops when fewer than eight bytes are left.
		case c < utf8.RuneSelf:
			s.at++
		default:
			r, size := utf8.DecodeRune(s.raw[s.at:])
			if r == utf8.RuneError && size == 1 {
				return fmt.Errorf("invalid UTF-8 at byte %d", s.at)
			}
			s.at += size
		}
	}
}

// skipText moves past the end of a string without checking it.
func (s *scanner) skipText() error {
	for start := s.at; ; {
		quote := bytes.IndexByte(s.raw[s.at:], '"')
		if quote < 0 {
			s.at = len(s.raw)
			return s.errorAt("")
		}
		s.at += quote
		escapes := s.at
		for escapes > start && s.raw[escapes-1] == '\\' {
			escapes--
		}
		s.at++
		if (s.at-1-escapes)%2 == 0 { // an odd number of backslashes escapes the quote
			return nil
		}
	}
}

// skipNested moves past the end of an object or array that was checked before. Without it, a list
// takes 2 % more instructions.
func (s *scanner) skipNested() error {
	for depth := 0; s.at < len(s.raw); {
		switch s.raw[s.at] {
		case '"':
			s.at++
			if err := s.skipText(); err != nil {
				return err
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if s.at++; depth == 0 {
			return nil
		}
	}
	return s.errorAt("")
}

const (
	eachByte    = 0x0101010101010101
	eachHighBit = 0x8080808080808080
)

// plain moves past unescaped ASCII characters, eight bytes at a time. It stops at a quote, a backslash, a
// control character or a byte beyond ASCII, or if fewer than eight bytes are left.
func (s *scanner) plain() {
	raw, at := s.raw, s.at
	for ; at+8 <= len(raw); at += 8 {
		eight := binary.LittleEndian.Uint64(raw[at:])
		// '"'^' ' is one bit. Flipping it swaps the quote and the space. The quote then follows the control characters, so one comparison
		// finds both.
		low, backslash := eight^(eachByte*('"'^' ')), eight^(eachByte*'\\')
		// The high bit marks special bytes. A borrow may also mark bytes above a special one, but only the lowest mark counts.
		special := (eight | (low - eachByte*(' '+1)) | (backslash - eachByte)) & eachHighBit
		if special != 0 {
			at += bits.TrailingZeros64(special) / 8
			break
		}
	}
	s.at = at
}

// escape reads an escape sequence. It refuses a lone surrogate, which is not valid Unicode.
func (s *scanner) escape() error {
	unit, size := s.unit(s.at)
	if size == 0 {
		return s.errorAt("invalid escape sequence")
	}
	switch {
	case unit < 0xd800 || unit > 0xdfff:
	case unit >= 0xdc00:
		return s.errorAt("lone surrogate")
	default:
		low, lowSize := s.unit(s.at + size)
		if lowSize == 0 || low < 0xdc00 || low > 0xdfff {
			return s.errorAt("lone surrogate")
		}
		size += lowSize
	}
	s.at += size
	return nil
}

func isShortEscape(c byte) bool {
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	}
	return false
}

// unit returns the UTF-16 code unit of the escape sequence at a position, and the size of the sequence. The unit is 0 for a short escape
// such as \n. The size is 0 for an invalid sequence.
func (s *scanner) unit(at int) (unit rune, size int) {
	if at+1 >= len(s.raw) || s.raw[at] != '\\' {
		return 0, 0
	}
	switch c := s.raw[at+1]; {
	case isShortEscape(c):
		return 0, 2
	case c != 'u' || at+6 > len(s.raw):
		return 0, 0
	}
	n, err := strconv.ParseUint(string(s.raw[at+2:at+6]), 16, 16)
	if err != nil {
		return 0, 0
	}
	return rune(n), 6
}

// unquote returns the text of a valid JSON string.
func unquote(quoted []byte) []byte {
	if text := quoted[1 : len(quoted)-1]; bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return text
}
