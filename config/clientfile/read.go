package clientfile

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// File is a client's file.
type File struct {
	// Name is used in comments and errors.
	Name    string
	Content []byte
	// Folder is the base of relative working folders if [Team] gets a [Machine]. If it gets none, or if
	// Folder is empty, they stay relative.
	Folder string
}

// clientConfig is the content of a client's file.
type clientConfig struct {
	servers []member
	inputs  map[string]input
	folder  string // see [File]
}

// input is a value for which VS Code asks its user.
type input struct {
	description string
	fallback    *string
}

// read returns the servers and the inputs of a file. It looks in each member in which a client may store servers.
func read(f File) (clientConfig, error) {
	root, err := parse(f.Content)
	if kind := filepath.Ext(f.Name); err != nil && kind != "" && kind != ".json" {
		return clientConfig{}, fmt.Errorf("it is a %s file, not the JSON of a client; name a file such as .mcp.json", kind)
	}
	if err != nil {
		return clientConfig{}, err
	}
	if root.Kind() != '{' {
		return clientConfig{}, errors.New("it is JSON, but not an object")
	}
	all := clientConfig{inputs: map[string]input{}, folder: f.Folder}
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
		return clientConfig{}, errors.New(`it has no MCP servers: looked for "mcpServers" (Claude ` +
			`Desktop, Claude Code, Cursor, Windsurf) and "servers" (VS Code)`)
	}
	return all, nil
}

// Servers returns the names of the servers in a file, or none if the file is not valid.
func Servers(f File) []string {
	all, _ := read(f)
	return exslices.CastFunc(all.servers, func(m member) string { return m.name })
}

// addInputs adds the inputs of VS Code. It ignores the defaults of passwords.
func (f *clientConfig) addInputs(raw jsontext.Value) {
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

// looksLikeServers reports whether each member of an object has a command or a url.
func looksLikeServers(root jsontext.Value) bool {
	all := members(root)
	isOther := func(m member) bool { return find(m.value, "command") == nil && find(m.value, "url") == nil }
	return len(all) > 0 && !slices.ContainsFunc(all, isOther)
}

// member is a member of a JSON object. A slice of members preserves their order, which a map would lose.
type member struct {
	name  string
	value jsontext.Value
}

// members returns the members of a JSON object, including duplicates. Other values have no members.
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
		text := name.String() // before ReadValue, which reuses the memory of name
		value, err := d.ReadValue()
		if err != nil {
			return all
		}
		all = append(all, member{text, value.Clone()})
	}
}

// find returns the value at a path of names. Among duplicates, the last member counts.
func find(raw jsontext.Value, path ...string) jsontext.Value {
	for _, name := range path {
		all := members(raw)
		raw = nil
		for _, m := range all {
			if m.name == name {
				raw = m.value
			}
		}
	}
	return raw
}

// text returns a value for an environment or a command line: a string, or a number or a boolean as
// written. For other values, ok is false.
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

// names returns the names of the members of a JSON object.
func names(object jsontext.Value) map[string]bool {
	names := map[string]bool{}
	for _, m := range members(object) {
		names[m.name] = true
	}
	return names
}

// elements returns the elements of a JSON array. Other values have no elements.
func elements(raw jsontext.Value) (all []jsontext.Value) {
	if raw.Kind() != '[' || json.Unmarshal(raw, &all, jsontext.AllowDuplicateNames(true)) != nil {
		return nil
	}
	return all
}

// texts returns the elements of a JSON array as texts. ok is false if it is not an array of texts.
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

// parse reads JSON with comments, trailing commas and a byte order mark, as editors write it. It returns
// standard JSON.
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

var (
	// stringOrComment matches each string and each comment.
	stringOrComment = hclread.Lazily(`(?s)"(?:[^"\\]|\\.)*"?|//[^\n]*|/\*.*?(?:\*/|$)`)
	// stringOrComma matches each string, and each comma before a closing bracket.
	stringOrComma = hclread.Lazily(`(?s)"(?:[^"\\]|\\.)*"?|,[ \t\r\n]*[}\]]`)
)

// standard replaces comments and trailing commas by blanks, so offsets and lines stay the same.
func standard(content []byte) []byte {
	plain := stringOrComment().ReplaceAllFunc(content, func(match []byte) []byte {
		if match[0] == '"' {
			return match
		}
		blank := bytes.Repeat([]byte(" "), len(match))
		for i, c := range match {
			if c == '\n' {
				blank[i] = c
			}
		}
		return blank
	})
	return stringOrComma().ReplaceAllFunc(plain, func(match []byte) []byte {
		if match[0] == ',' {
			return append([]byte(" "), match[1:]...)
		}
		return match
	})
}
