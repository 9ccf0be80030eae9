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
	// Path has the names of the objects from the outermost on, and last that of the member.
	Path []string
	// Value is that of the member or, if IsElement is set, an element of its array.
	Value     any
	IsElement bool
}

// Apply returns a client's file with a change made, unless it is there already. All else stays as it
// is, comments included. An empty file becomes one that has just the member.
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
	// Nobody looks at it before the client does, and a name may occur twice.
	if after, err := parse(edited); err != nil || !edit.isIn(after, value) {
		return nil, fmt.Errorf("it has %s twice", strings.Join(edit.Path, "."))
	}
	// With the byte order mark, if there was one.
	return slices.Concat(bytes.TrimSuffix(content, text), edited), nil
}

// isIn reports whether a change is made already.
func (e Edit) isIn(file, value jsontext.Value) bool {
	now := []jsontext.Value{find(file, e.Path...)}
	if e.IsElement {
		now = elements(now[0])
	}
	return slices.ContainsFunc(now, func(v jsontext.Value) bool {
		a, b := v.Clone(), value.Clone() // which differ in white space and the order of members only
		return a.Canonicalize() == nil && b.Canonicalize() == nil && bytes.Equal(a, b)
	})
}

// unitOf returns one level of a file's indent.
func unitOf(content []byte) string {
	for line := range bytes.Lines(content) {
		text := bytes.TrimLeft(line, " \t")
		if len(text) < len(line) && bytes.HasPrefix(text, []byte(`"`)) {
			return string(line[:len(line)-len(text)])
		}
	}
	return "  "
}

// editor changes a text, at the offsets of the same text without comments.
type editor struct {
	content, plain []byte
	unit           string
}

// apply walks to the last object of the path that exists, and changes or adds a member of it.
func (e *editor) apply(edit Edit, value jsontext.Value) ([]byte, error) {
	d := jsontext.NewDecoder(bytes.NewReader(e.plain), jsontext.AllowDuplicateNames(true))
	for depth, name := range edit.Path {
		if d.PeekKind() != '{' {
			return nil, fmt.Errorf("%s is not an object", strings.Join(append([]string{"the file"}, edit.Path[:depth]...), "."))
		}
		_, _ = d.ReadToken() // which is there, as the text has been parsed
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
	from := int(d.InputOffset()) // behind the name
	from += len(e.plain[from:]) - len(bytes.TrimLeft(e.plain[from:], ": \t\r\n"))
	_ = d.SkipValue() // which is there, too
	return e.splice(from, int(d.InputOffset()), e.indented(value, len(edit.Path))), nil
}

// goTo reads on to the value of a member of the object whose opening brace was read last.
func goTo(d *jsontext.Decoder, name string) bool {
	for d.PeekKind() == '"' {
		if token, _ := d.ReadToken(); token.String() == name {
			return true
		}
		_ = d.SkipValue() // as above
	}
	return false
}

func memberName(name string) jsontext.Value {
	quoted, _ := jsontext.AppendQuote(nil, name) // names that are no UTF-8 have a form, too
	return append(quoted, ": "...)
}

// insert adds a member or an element behind an opening bracket, where only comments may be.
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

// indented returns a value, whose first line is at a depth.
func (e *editor) indented(value jsontext.Value, depth int) string {
	value = value.Clone()
	_ = value.Indent(jsontext.WithIndentPrefix(strings.Repeat(e.unit, depth)), jsontext.WithIndent(e.unit))
	return string(value)
}

func (e *editor) splice(from, to int, text string) []byte {
	return []byte(string(e.content[:from]) + text + string(e.content[to:]))
}
