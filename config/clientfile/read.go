package clientfile

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// File is a client's file.
type File struct {
	// Name is what comments and errors call it.
	Name    string
	Content []byte
}

// found is what a client's file says.
type found struct {
	servers []member
	inputs  map[string]input
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
	all := found{inputs: map[string]input{}}
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
		return found{}, errors.New(`it has no MCP servers: looked for "mcpServers" (Claude Desktop, Claude Code, Cursor, Windsurf) and "servers" (VS Code)`)
	}
	return all, nil
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
