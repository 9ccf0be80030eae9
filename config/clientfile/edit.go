package clientfile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Edit is a change of one member of a client's file.
type Edit struct {
	// Path lists the names of the objects from the outermost on, then the member's name.
	Path []string
	// Value is the member's value or, if IsElement is true, an element of its array.
	Value     any
	IsElement bool
}

// Apply applies a change to a client's file. If the file already has the change, Apply returns it unchanged. Comments
// and all other members stay. An empty file becomes an object with only the member.
func Apply(content []byte, edit Edit) ([]byte, error) {
	if len(bytes.TrimSpace(content)) == 0 {
		content = []byte("{}\n")
	}
	before, err := parse(content)
	if err != nil {
		return nil, err
	}
	value, err := json.Marshal(edit.Value, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	if edit.isIn(before, value) {
		return content, nil
	}
	text := bytes.TrimPrefix(content, byteOrderMark)
	e := editor{content: text, plain: before, unit: unitOf(text)}
	edited, err := e.apply(edit, value)
	if err != nil {
		return nil, err
	}
	// If a name occurs twice, the edit may have changed the wrong member. No person reviews the
	// file before the client reads it, so check the result.
	if after, err := parse(edited); err != nil || !edit.isIn(after, value) {
		return nil, fmt.Errorf("it has %s twice", strings.Join(edit.Path, "."))
	}
	// Keep a byte order mark.
	return slices.Concat(bytes.TrimSuffix(content, text), edited), nil
}

// isIn reports whether the file has the change, however its JSON is written.
func (e Edit) isIn(file, value jsontext.Value) bool {
	now := []jsontext.Value{find(file, e.Path...)}
	if e.IsElement {
		now = elements(now[0])
	}
	return slices.ContainsFunc(now, func(v jsontext.Value) bool {
		a, b := v.Clone(), value.Clone() // white space and the order of members do not matter
		return a.Canonicalize() == nil && b.Canonicalize() == nil && bytes.Equal(a, b)
	})
}

// unitOf returns the indentation of the first indented line that begins with a name, or two spaces if no
// line does.
func unitOf(content []byte) string {
	for line := range bytes.Lines(content) {
		text := bytes.TrimLeft(line, " \t")
		if len(text) < len(line) && bytes.HasPrefix(text, []byte(`"`)) {
			return string(line[:len(line)-len(text)])
		}
	}
	return "  "
}

// editor changes a text. plain is content without comments; offsets are the same in both.
type editor struct {
	content, plain []byte
	unit           string
}

// apply changes the member at the path. If objects of the path are missing, it adds them.
func (e *editor) apply(edit Edit, value jsontext.Value) ([]byte, error) {
	d := jsontext.NewDecoder(bytes.NewReader(e.plain), jsontext.AllowDuplicateNames(true))
	for depth, name := range edit.Path {
		if d.PeekKind() != '{' {
			return nil, fmt.Errorf("%s is not an object", strings.Join(append([]string{"the file"}, edit.Path[:depth]...), "."))
		}
		_, _ = d.ReadToken() // no error, since the text was parsed
		open, isEmpty := int(d.InputOffset()), d.PeekKind() == '}'
		if goTo(d, name) {
			continue
		}
		if edit.IsElement {
			value = slices.Concat(jsontext.Value("["), value, jsontext.Value("]"))
		}
		for i := len(edit.Path) - 1; i > depth; i-- {
			value = slices.Concat(jsontext.Value("{"), memberName(edit.Path[i]), value, jsontext.Value("}"))
		}
		return e.insert(open, depth+1, memberName(name), value, isEmpty), nil
	}
	switch isArray := d.PeekKind() == '['; {
	case edit.IsElement && !isArray:
		return nil, fmt.Errorf("%s is not a list", strings.Join(edit.Path, "."))
	case edit.IsElement:
		_, _ = d.ReadToken()
		return e.insert(int(d.InputOffset()), len(edit.Path)+1, nil, value, d.PeekKind() == ']'), nil
	}
	from := int(d.InputOffset()) // after the name
	from += len(e.plain[from:]) - len(bytes.TrimLeft(e.plain[from:], ": \t\r\n"))
	_ = d.SkipValue() // no error, since the text was parsed
	return e.splice(from, int(d.InputOffset()), e.indented(value, len(edit.Path))), nil
}

// goTo reads up to the value of a member, and reports whether the object has the member. The
// decoder must be at the beginning of the object's members.
func goTo(d *jsontext.Decoder, name string) bool {
	for d.PeekKind() == '"' {
		if token, _ := d.ReadToken(); token.String() == name {
			return true
		}
		_ = d.SkipValue() // no error, since the text was parsed
	}
	return false
}

func memberName(name string) jsontext.Value {
	quoted, _ := jsontext.AppendQuote(nil, name) // invalid UTF-8 is replaced
	return append(quoted, ": "...)
}

// insert adds a member or an element after an opening bracket. isEmpty is true if only white space
// and comments separate it from the closing bracket.
func (e *editor) insert(open, depth int, name, value jsontext.Value, isEmpty bool) []byte {
	text := "\n" + strings.Repeat(e.unit, depth) + string(name) + e.indented(value, depth)
	rest := bytes.TrimLeft(e.content[open:], " \t\r")
	switch {
	case !isEmpty:
		text += ","
	case rest[0] == '}', rest[0] == ']':
		text += "\n" + strings.Repeat(e.unit, depth-1)
	}
	return e.splice(open, open, text)
}

// indented returns a value with the indentation of a depth. The first line has no indentation.
func (e *editor) indented(value jsontext.Value, depth int) string {
	value = value.Clone()
	_ = value.Indent(jsontext.WithIndentPrefix(strings.Repeat(e.unit, depth)), jsontext.WithIndent(e.unit))
	return string(value)
}

func (e *editor) splice(from, to int, text string) []byte {
	return []byte(string(e.content[:from]) + text + string(e.content[to:]))
}
