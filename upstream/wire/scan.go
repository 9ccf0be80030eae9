package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deep arrays and objects may nest in a message. The scanner recurses, and a stack
// that overflows ends the process.
const MaxDepth = 128

var (
	errDepth    = fmt.Errorf("nested deeper than %d", MaxDepth)
	errEmpty    = errors.New("no JSON value")
	errTrailing = errors.New("bytes after the end of the JSON value")
)

// scanner reads JSON strictly in one pass: RFC 8259, and from RFC 7493 that names are unique and
// text is Unicode. It accepts what a jsontext.Decoder accepts, to which FuzzParseObject and
// FuzzParseBatch compare it, but reads strings eight bytes at a time: nearly all of a prompt is in
// its strings.
//
// It is kept because of large prompts. With jsontext in its place, a get of 1 MB takes 33 % longer,
// or 18 % with an escape in every 13 bytes; for one of 0.3 KB no difference shows (8 pairs in
// turns, over loopback).
type scanner struct {
	raw   []byte
	at    int
	depth int
	rigor rigor
	// escapes is set if the last string has an escape. It is maintained for a strict scanner only.
	escapes bool
	// names has the start of each name of the objects that the scanner is in, and known counts
	// them. They are kept here, because a set of names at each level would make up most of the
	// stack.
	names [maxFew]int
	known int
}

// rigor is how much a scanner checks.
type rigor uint8

const (
	strict rigor = iota
	// delimiting is for text whose values need only be delimited like JSON: names are not compared
	// and text is not checked.
	delimiting
	// splitting is for values that were checked before: nothing is checked again.
	splitting
)

// errorAt returns an error about the present position.
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

// peek returns the byte at the present position, 0 at the end.
func (s *scanner) peek() byte {
	if s.at >= len(s.raw) {
		return 0
	}
	return s.raw[s.at]
}

// skip moves past a byte if it is the next one, and reports whether it was.
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
		case s.rigor == splitting:
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
	names := nameSet{outer: s.known}
	for {
		start := s.at
		if s.peek() != '"' {
			return s.errorAt("want the name of a member")
		}
		if err := s.text(); err != nil {
			return err
		}
		quoted := s.raw[start:s.at]
		if s.rigor == strict && !names.add(s, start) {
			return fmt.Errorf("duplicate name %s in an object", Clip(string(quoted), maxClipped))
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
			// Without spare capacity: what is appended to a value must not overwrite what follows
			// it.
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
			// Without spare capacity, as a member's value.
			element(s.raw[start:s.at:s.at])
		}
		if last, err := s.next(']'); last || err != nil {
			return err
		}
	}
}

// open moves past an opening bracket, and past the closing one if nothing is between them.
func (s *scanner) open(closing byte) (empty bool, err error) {
	if s.depth++; s.depth > MaxDepth {
		return false, errDepth
	}
	s.at++
	s.space()
	return s.closed(closing), nil
}

// next moves past a comma, or past the closing bracket after the last part.
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

// maxClipped bounds the part of a name that an error shows, in bytes.
const maxClipped = 64

// maxFew bounds the names that are compared one by one. More go into a map.
const maxFew = 16

// nameSet is the set of names of one object: those that the scanner knows from index outer on, or
// those in many, if there are too many or one is spelled with an escape.
type nameSet struct {
	outer int
	many  map[string]struct{}
}

// add adds the last name, which starts at start, and reports whether it is new.
func (n *nameSet) add(s *scanner, start int) bool {
	quoted := s.raw[start:s.at]
	if n.many == nil && !s.escapes {
		for _, other := range s.names[n.outer:s.known] {
			if bytes.HasPrefix(s.raw[other:], quoted) { // the closing quote is part of both
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
		return s.errorAt("not the start of a JSON value")
	}
	s.at += len(text)
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (s *scanner) number() error {
	s.skip('-')
	// A digit after a leading 0 is left for whoever expects the end of the value.
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

// digits moves past digits and reports whether there was any.
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
	if s.rigor != strict {
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
		// At the end of the text, too, where peek returns 0: errorAt then says so.
		case c < ' ':
			return s.errorAt("control character in a string")
		// One of the last bytes, which are too few for plain.
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

// skipText moves past the end of a string without a look at what is in it.
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

// skipNested moves past the end of an object or an array that was checked before: past the bracket
// that closes the first one.
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

// plain moves past ASCII characters that stand for themselves, eight bytes at a time. It stops at a
// quote, a backslash, a control character or a byte beyond ASCII, or when less than eight bytes are
// left.
func (s *scanner) plain() {
	raw, at := s.raw, s.at
	for ; at+8 <= len(raw); at += 8 {
		eight := binary.LittleEndian.Uint64(raw[at:])
		// Flipping this bit swaps the quote and the space, so that the quote follows the control
		// characters directly and one comparison finds both.
		low, backslash := eight^(eachByte*('"'^' ')), eight^(eachByte*'\\')
		// The high bit of each special byte is set. A borrow may set it in bytes above a special
		// one too, but only the lowest counts.
		special := (eight | (low - eachByte*(' '+1)) | (backslash - eachByte)) & eachHighBit
		if special != 0 {
			at += bits.TrailingZeros64(special) / 8
			break
		}
	}
	s.at = at
}

// escape reads an escape sequence. A lone surrogate is not Unicode.
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

// unit returns the UTF-16 code unit of the escape sequence at a position, 0 for a short escape, and
// the size of the sequence, 0 if there is none.
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

// unquote returns the text of a JSON string that is known to be valid.
func unquote(quoted []byte) []byte {
	if text := quoted[1 : len(quoted)-1]; bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return text
}
