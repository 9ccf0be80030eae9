package clientfile

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// File is a client's file.
type File struct {
	// Name is what comments and errors call it.
	Name    string
	Content []byte
	// Folder is where relative folders begin in a team that is for this machine. In any other, and
	// where it is empty, they stay relative.
	Folder string
}

// found is what a client's file says.
type found struct {
	servers []member
	inputs  map[string]input
	folder  string // see [File]
}

// input is something that VS Code asks its user for.
type input struct {
	description string
	fallback    *string
}

// note says what an input is for.
func (i input) note() string {
	if i.description == "" {
		return "asked for by the client"
	}
	return i.description
}

// read finds the servers in a file, by where each client has them.
func read(f File) (found, error) {
	root, err := parse(f.Content)
	if err != nil {
		return found{}, err
	}
	if root.Kind() != '{' {
		return found{}, errors.New("it is JSON, but not an object")
	}
	all := found{inputs: map[string]input{}, folder: f.Folder}
	for _, path := range [][]string{
		{"mcpServers"},     // Claude Desktop, Claude Code, Cursor, Windsurf
		{"servers"},        // VS Code: mcp.json
		{"mcp", "servers"}, // VS Code: settings.json
	} {
		all.servers = append(all.servers, members(find(root, path...))...)
	}
	for _, project := range members(find(root, "projects")) { // Claude Code: ~/.claude.json
		all.servers = append(all.servers, members(find(project.value, "mcpServers"))...)
	}
	for _, path := range [][]string{{"inputs"}, {"mcp", "inputs"}} {
		all.addInputs(find(root, path...))
	}
	if len(all.servers) == 0 && looksLikeServers(root) { // Claude Code: .mcp.json of a plugin
		all.servers = members(root)
	}
	if len(all.servers) == 0 {
		return found{}, errors.New(`it has no MCP servers: looked for "mcpServers" (Claude ` +
			`Desktop, Claude Code, Cursor, Windsurf) and "servers" (VS Code)`)
	}
	return all, nil
}

// Servers returns the names of the servers in a file; none where it cannot be read.
func Servers(f File) (names []string) {
	all, _ := read(f)
	for _, m := range all.servers {
		names = append(names, m.name)
	}
	return names
}

// addInputs adds the inputs of VS Code. What is a password has no default.
func (f *found) addInputs(raw jsontext.Value) {
	for _, one := range elements(raw) {
		id, _ := text(find(one, "id"))
		description, _ := text(find(one, "description"))
		in := input{description: description}
		if fallback, ok := text(find(one, "default")); ok && find(one, "password").Kind() != 't' {
			in.fallback = &fallback
		}
		f.inputs[id] = in
	}
}

// looksLikeServers reports whether each member of an object could be a server.
func looksLikeServers(root jsontext.Value) bool {
	all := members(root)
	for _, m := range all {
		if find(m.value, "command") == nil && find(m.value, "url") == nil {
			return false
		}
	}
	return len(all) > 0
}

// member is a member of a JSON object. Objects keep their order, because people order their
// servers.
type member struct {
	name  string
	value jsontext.Value
}

// members returns the members of a JSON object, and nothing for any other value. Of a name that
// occurs twice, all are returned.
func members(raw jsontext.Value) []member {
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil
	}
	var all []member
	for {
		name, err := d.ReadToken()
		if err != nil || name.Kind() == '}' {
			return all
		}
		m := member{name: name.String()}
		value, err := d.ReadValue()
		if err != nil {
			return all
		}
		m.value = value.Clone()
		all = append(all, m)
	}
}

// find returns the value of a member at a path of names; of those with the same name, the last.
func find(raw jsontext.Value, path ...string) jsontext.Value {
	for _, name := range path {
		var found jsontext.Value
		for _, m := range members(raw) {
			if m.name == name {
				found = m.value
			}
		}
		raw = found
	}
	return raw
}

// text returns a value as environments and command lines take it: a string, or a number or a
// boolean as it is written. Others are not ok.
func text(raw jsontext.Value) (s string, ok bool) {
	switch raw.Kind() {
	case '"':
		err := json.Unmarshal(raw, &s)
		return s, err == nil
	case '0', 't', 'f':
		return string(raw), true
	default:
		return "", false
	}
}

// elements returns the elements of a JSON array, and nothing for any other value.
func elements(raw jsontext.Value) (all []jsontext.Value) {
	if raw.Kind() != '[' || json.Unmarshal(raw, &all, jsontext.AllowDuplicateNames(true)) != nil {
		return nil
	}
	return all
}

// texts returns a list of texts; it is not ok if it is none.
func texts(raw jsontext.Value) (list []string, ok bool) {
	if raw.Kind() != '[' {
		return nil, false
	}
	for _, value := range elements(raw) {
		s, ok := text(value)
		if !ok {
			return nil, false
		}
		list = append(list, s)
	}
	return list, true
}

var byteOrderMark = []byte("\ufeff") //nolint:gochecknoglobals // constant

// parse reads JSON as editors write it: with comments, commas after the last element, and a byte
// order mark.
func parse(content []byte) (jsontext.Value, error) {
	content = bytes.TrimPrefix(content, byteOrderMark)
	plain := jsontext.Value(standard(content))
	d := jsontext.NewDecoder(bytes.NewReader(plain), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadValue(); err != nil {
		line := 1 + bytes.Count(content[:min(int(d.InputOffset()), len(content))], []byte("\n"))
		return nil, fmt.Errorf("line %d is not JSON: %s", line, strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	if end := int(d.InputOffset()); len(bytes.TrimSpace(plain[end:])) > 0 {
		rest := len(plain) - len(bytes.TrimLeft(plain[end:], " \t\r\n"))
		return nil, fmt.Errorf("line %d is behind the end of the JSON object; remove it, or put it into a file of its own", 1+bytes.Count(plain[:rest], []byte("\n")))
	}
	return plain, nil
}

// standard returns JSON with blanks in place of comments and of commas that precede a closing
// bracket, so that offsets stay.
func standard(content []byte) []byte {
	// The last comma, if only blanks and comments have followed, else -1.
	plain, comma := bytes.Clone(content), -1
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if plain[i] != '\n' {
				plain[i] = ' '
			}
		}
	}
	for i := 0; i < len(content); i++ {
		rest := content[i:]
		switch {
		case rest[0] == '"':
			i += stringLength(rest) - 1
			comma = -1
		case bytes.HasPrefix(rest, []byte("//")):
			end := i + lengthUntil(rest, "\n", 0)
			blank(i, end)
			i = end - 1
		case bytes.HasPrefix(rest, []byte("/*")):
			end := i + lengthUntil(rest[2:], "*/", 2) + 2
			blank(i, end)
			i = end - 1
		case rest[0] == ',':
			comma = i
		case rest[0] == '}' || rest[0] == ']':
			if comma >= 0 {
				plain[comma] = ' '
			}
			comma = -1
		case !bytes.ContainsAny(rest[:1], " \t\r\n"):
			comma = -1
		}
	}
	return plain
}

// stringLength returns the length of the JSON string that content begins with, or of all content if
// it does not end.
func stringLength(content []byte) int {
	for i := 1; i < len(content); i++ {
		switch content[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(content)
}

// lengthUntil returns how much of content lies before a mark, with so many bytes of the mark, or
// all.
func lengthUntil(content []byte, mark string, ofMark int) int {
	if i := bytes.Index(content, []byte(mark)); i >= 0 {
		return i + ofMark
	}
	return len(content)
}
