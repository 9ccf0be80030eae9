package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deep arrays and objects may nest in a message.
const MaxDepth = 128

var (
	errDepth    = fmt.Errorf("nested deeper than %d", MaxDepth)
	errEmpty    = errors.New("no JSON value")
	errTrailing = errors.New("bytes after the end of the JSON value")
)

// Object is a JSON object's members in the order they were read, each with the bytes it was read with.
type Object []Member

// Member is one member of an [Object].
type Member struct {
	Name  string
	Value jsontext.Value
	// quoted is the name as it was spelled, quotes and escapes included.
	quoted []byte
}

// NewMember returns a member. One that is needed often is made once, and then [Member.Of] with each value.
func NewMember(name string, value jsontext.Value) Member {
	return Member{Name: name, Value: value, quoted: Quote(name)}
}

// Of returns a member of the same name with another value.
func (m Member) Of(value jsontext.Value) Member {
	m.Value = value
	return m
}

// ParseObject reads raw as one JSON object, strictly. It looks at every level but splits only the first.
func ParseObject(raw []byte) (Object, error) { return parseObject(&scanner{raw: raw}) }

// Members splits a JSON object that is part of what [Parse] or [ParseObject] has read, and is therefore known to be
// strict. Of a value of another kind it returns nil.
func Members(part jsontext.Value) Object {
	if part.Kind() != '{' {
		return nil
	}
	object, err := parseObject(&scanner{raw: part, trusted: true})
	if err != nil {
		return nil
	}
	return object
}

// usualMembers is for how many members there is room before more has to be made.
const usualMembers = 4

func parseObject(s *scanner) (Object, error) {
	object := Object{}
	err := s.members(func(name, quoted, value []byte) {
		if cap(object) == 0 {
			object = make(Object, 0, usualMembers)
		}
		object = append(object, Member{Name: string(name), Value: value, quoted: quoted})
	})
	if err != nil {
		return nil, err
	}
	return object, nil
}

// members calls member for each member of the one object that is to be read.
func (s *scanner) members(member func(name, quoted, value []byte)) error {
	s.space()
	if s.peek() != '{' {
		return s.notAnObject()
	}
	err := s.object(func(quoted, value []byte) { member(unquote(quoted), quoted, value) })
	if err != nil {
		return err
	}
	return s.end()
}

// notAnObject explains why the next value is not an object: it is something else, or no JSON at all.
func (s *scanner) notAnObject() error {
	if s.at == len(s.raw) {
		return errEmpty
	}
	if err := s.value(); err != nil {
		return err
	}
	return errors.New("not a JSON object")
}

// unquote returns the text of a JSON string that is known to be valid.
func unquote(quoted []byte) []byte {
	if text := quoted[1 : len(quoted)-1]; bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return text
}

// Get returns the value of the named member, or nil.
func (o Object) Get(name string) jsontext.Value {
	for i := range o {
		if o[i].Name == name {
			return o[i].Value
		}
	}
	return nil
}

// Text returns the named member's value where it is a JSON string.
func (o Object) Text(name string) (string, bool) { return Text(o.Get(name)) }

// Text returns the text of a JSON string; ok is false if value is anything else.
func Text(value jsontext.Value) (text string, ok bool) {
	if len(value) < 2 || value[0] != '"' {
		return "", false
	}
	if quoted := value[1 : len(value)-1]; bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted), true
	}
	unquoted, err := jsontext.AppendUnquote(nil, value)
	return string(unquoted), err == nil
}

// Folded returns the name of a member that is one of the names but for the case of its letters, or "". Some readers
// take such a member for the other (encoding/json does), so that it would say two things.
func (o Object) Folded(names ...string) string {
	for i := range o {
		for _, name := range names {
			if o[i].Name != name && strings.EqualFold(o[i].Name, name) {
				return o[i].Name
			}
		}
	}
	return ""
}

// Object returns the named member's members where its value is a JSON object, and nil otherwise. The receiver must
// come from what was read strictly, see [Members].
func (o Object) Object(name string) Object { return Members(o.Get(name)) }

// With returns the object with one member's value replaced where it stands, or added at the end. The receiver
// stays as it was.
func (o Object) With(name string, value jsontext.Value) Object {
	changed := make(Object, len(o), len(o)+1)
	copy(changed, o)
	for i := range changed {
		if changed[i].Name == name {
			changed[i].Value = value
			return changed
		}
	}
	return append(changed, NewMember(name, value))
}

// Without returns the object less the members that drop picks. The receiver stays as it was.
func (o Object) Without(drop func(name string) bool) Object {
	kept := make(Object, 0, len(o))
	for _, m := range o {
		if !drop(m.Name) {
			kept = append(kept, m)
		}
	}
	return kept
}

// Append appends the object's JSON to dst.
func (o Object) Append(dst []byte) []byte {
	return o.AppendBy(dst, func(dst []byte, value jsontext.Value) []byte { return append(dst, value...) })
}

// AppendBy is [Object.Append], with each member's value appended by the function.
func (o Object) AppendBy(dst []byte, appendValue func(dst []byte, value jsontext.Value) []byte) []byte {
	dst = append(dst, '{')
	for i, m := range o {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, m.quoted...), ':')
		dst = appendValue(dst, m.Value)
	}
	return append(dst, '}')
}

// JSON returns the object's JSON.
func (o Object) JSON() jsontext.Value {
	size := 2
	for _, m := range o {
		size += len(m.quoted) + len(m.Value) + 2
	}
	return o.Append(make([]byte, 0, size))
}

// Quote returns s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func Quote(s string) jsontext.Value {
	quoted, err := jsontext.AppendQuote(make([]byte, 0, len(s)+2), s)
	if err != nil { // invalid UTF-8: AppendQuote has replaced it and says so
		return quoted
	}
	return quoted
}

// ParseArray splits the elements of a JSON array that is part of an already parsed value.
func ParseArray(raw jsontext.Value) ([]jsontext.Value, error) {
	return parseArray(&scanner{raw: raw, trusted: true})
}

func parseArray(s *scanner) (elements []jsontext.Value, err error) {
	s.space()
	if s.peek() != '[' {
		return nil, errors.New("not a JSON array")
	}
	err = s.array(func(value []byte) { elements = append(elements, value) })
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return nil, err
	}
	return elements, nil
}

// SingleLine returns value without the line breaks that may stand between its tokens; no token is changed. The
// stdio transport frames messages by line.
func SingleLine(value []byte) []byte {
	if !bytes.ContainsAny(value, "\r\n") {
		return value
	}
	compact := jsontext.Value(bytes.Clone(value))
	if err := compact.Compact(jsontext.PreserveRawStrings(true)); err != nil {
		return value
	}
	return compact
}
