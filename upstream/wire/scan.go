package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// scanner reads JSON strictly (RFC 8259, and of RFC 7493 that names are unique and text is Unicode) in one pass, as a
// jsontext.Decoder does, but eight bytes of a string at a time: nearly all of a prompt is in its strings. FuzzParseObject
// and FuzzParseBatch hold it against jsontext.
type scanner struct {
	raw   []byte
	at    int
	depth int
	// trusted is set where what is read was read strictly before: names are not compared again, nor text looked at.
	trusted bool
	// escapes is set where the string that was read last has an escape; not kept where it is trusted.
	escapes bool
	// names are where the names begin that were read of the objects that the scanner is in. They stand here because a
	// set of names at each level would make up most of the stack.
	names [maxFew]int
	known int
}

// errorAt says what is wrong where the scanner stands.
func (s *scanner) errorAt(problem string) error {
	if s.at >= len(s.raw) {
		return fmt.Errorf("unexpected EOF after %d bytes", len(s.raw))
	}
	return fmt.Errorf("invalid character %q at byte %d: %s", s.raw[s.at:s.at+1], s.at, problem)
}

func (s *scanner) space() {
	for s.at < len(s.raw) {
		switch s.raw[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// peek returns the byte where the scanner stands, 0 at the end.
func (s *scanner) peek() byte {
	if s.at >= len(s.raw) {
		return 0
	}
	return s.raw[s.at]
}

// took reports whether the byte stands here, and goes past it.
func (s *scanner) took(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

// end reports an error unless nothing but space is left.
func (s *scanner) end() error {
	if s.space(); s.at < len(s.raw) {
		return errTrailing
	}
	return nil
}

func (s *scanner) value() error {
	switch c := s.peek(); c {
	case '{':
		return s.object(nil)
	case '[':
		return s.array(nil)
	case '"':
		return s.text()
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		if c == '-' || isDigit(c) {
			return s.number()
		}
	}
	return s.errorAt("no JSON value begins so")
}

// object reads an object and calls member, which may be nil, for each of its members.
func (s *scanner) object(member func(quoted, value []byte)) error {
	if empty, err := s.open('}'); empty || err != nil {
		return err
	}
	names := nameSet{outer: s.known}
	for {
		start := s.at
		if s.peek() != '"' {
			return s.errorAt("a member must begin with its name")
		}
		if err := s.text(); err != nil {
			return err
		}
		quoted := s.raw[start:s.at]
		if !s.trusted && !names.add(s, start) {
			return fmt.Errorf("duplicate name %s in an object", clip(quoted))
		}
		if s.space(); !s.took(':') {
			return s.errorAt("a name must be followed by a colon")
		}
		s.space()
		start = s.at
		if err := s.value(); err != nil {
			return err
		}
		if member != nil {
			member(quoted, s.raw[start:s.at:s.at])
		}
		if last, err := s.next('}'); last || err != nil {
			s.known = names.outer
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
			element(s.raw[start:s.at:s.at])
		}
		if last, err := s.next(']'); last || err != nil {
			return err
		}
	}
}

// open goes past an opening bracket, and past the closing one where nothing stands between them.
func (s *scanner) open(closing byte) (empty bool, err error) {
	if s.depth++; s.depth > MaxDepth {
		return false, errDepth
	}
	s.at++
	s.space()
	return s.closed(closing), nil
}

// next goes past a comma, or past the bracket that closes what the parts before were in.
func (s *scanner) next(closing byte) (last bool, err error) {
	if s.space(); s.closed(closing) {
		return true, nil
	}
	if !s.took(',') {
		return false, s.errorAt("a comma or the end must follow a value")
	}
	s.space()
	return false, nil
}

func (s *scanner) closed(closing byte) bool {
	if !s.took(closing) {
		return false
	}
	s.depth--
	return true
}

// maxClipped bounds what of a name stands in an error, in bytes.
const maxClipped = 64

func clip(text []byte) []byte {
	if len(text) > maxClipped {
		return append(bytes.ToValidUTF8(text[:maxClipped:maxClipped], nil), "..."...)
	}
	return text
}

// maxFew bounds the names that are compared one by one.
const maxFew = 16

// nameSet are the names of an object's members: those that a scanner knows, less those of the objects around it, until
// there are too many or one is spelled with an escape.
type nameSet struct {
	outer int
	many  map[string]struct{}
}

// add reports whether the name that was read last, from start on, was not there yet.
func (n *nameSet) add(s *scanner, start int) bool {
	quoted := s.raw[start:s.at]
	if n.many == nil && !s.escapes {
		for _, other := range s.names[n.outer:s.known] {
			if bytes.HasPrefix(s.raw[other:], quoted) { // up to the quote that ends both
				return false
			}
		}
		if s.known < maxFew {
			s.names[s.known] = start
			s.known++
			return true
		}
	}
	return n.addToMany(s, quoted)
}

func (n *nameSet) addToMany(s *scanner, quoted []byte) bool {
	if n.many == nil {
		n.many = map[string]struct{}{}
		for _, other := range s.names[n.outer:s.known] {
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
		return s.errorAt("no JSON value begins so")
	}
	s.at += len(text)
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (s *scanner) number() error {
	s.took('-')
	if !s.took('0') && !s.digits() {
		return s.errorAt("no digit in a number")
	}
	if s.took('.') && !s.digits() {
		return s.errorAt("no digit after a decimal point")
	}
	if s.took('e') || s.took('E') {
		if !s.took('+') {
			s.took('-')
		}
		if !s.digits() {
			return s.errorAt("no digit in an exponent")
		}
	}
	return nil
}

// digits goes past digits and reports whether there was one.
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
	if s.trusted {
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
		case c < ' ':
			return s.errorAt("a control character in a string")
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

// skipText goes past the end of a string that is known to be one.
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
		if (s.at-1-escapes)%2 == 0 { // an odd number of backslashes makes the quote text
			return nil
		}
	}
}

const (
	eachByte    = 0x0101010101010101
	eachHighBit = 0x8080808080808080
)

// plain goes past ASCII that means itself, eight bytes at a time: up to a quote, a backslash, a control character or
// what is beyond ASCII, or to less than eight bytes before the end.
func (s *scanner) plain() {
	for s.at+8 <= len(s.raw) {
		eight := binary.LittleEndian.Uint64(s.raw[s.at:])
		// With this bit the other way round a quote follows the control characters, and nothing else comes before it.
		low, backslash := eight^(eachByte*('"'^' ')), eight^(eachByte*'\\')
		// The high bit of a byte is set where it is special, and above such a byte also where a borrow came from it.
		special := (eight | (low - eachByte*(' '+1)) | (backslash - eachByte)) & eachHighBit
		if special != 0 {
			s.at += bits.TrailingZeros64(special) / 8
			return
		}
		s.at += 8
	}
}

// escape reads an escape sequence. Of two halves of a surrogate pair neither may stand alone.
func (s *scanner) escape() error {
	unit, size := s.unit(s.at)
	if size == 0 {
		return s.errorAt("an invalid escape sequence")
	}
	switch {
	case unit < 0xd800 || unit > 0xdfff:
	case unit >= 0xdc00:
		return s.errorAt("half a surrogate pair")
	default:
		low, lowSize := s.unit(s.at + size)
		if lowSize == 0 || low < 0xdc00 || low > 0xdfff {
			return s.errorAt("half a surrogate pair")
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

// unit returns the UTF-16 unit of the escape sequence at a place, and the sequence's size: 0 where there is none. The
// unit of a short escape is 0.
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
	for _, c := range s.raw[at+2 : at+6] {
		switch {
		case isDigit(c):
			unit = unit<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			unit = unit<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			unit = unit<<4 | rune(c-'A'+10)
		default:
			return 0, 0
		}
	}
	return unit, 6
}
