package clientsetup

import (
	"encoding/json"
	"strings"

	"github.com/promptweir/promptweir/config"
)

// Access is what a client needs to be let in.
type Access int

// The kinds of access.
const (
	Open        Access = iota // nothing
	SignIn                    // the client finds the identity provider by itself, and a person signs in there
	Token                     // a bearer token
	Certificate               // a client certificate
)

// AccessOf returns what a client needs under an auth block, nil for none. Where there are several
// ways, it is the easiest for people.
func AccessOf(auth *config.Auth) Access {
	switch {
	case auth == nil || auth.Anonymous && len(auth.JWTs) == 0:
		return Open
	case len(auth.JWTs) > 0:
		return SignIn
	case len(auth.Tokens) > 0:
		return Token
	default:
		return Certificate
	}
}

// TokenVariable is the variable of the environment from which clients take the token.
const TokenVariable = "PROMPTWEIR_TOKEN"

// Client is a program that speaks MCP, and what points it at a gateway.
type Client struct {
	// Name is what the command line calls it, Title what people do.
	Name, Title string
	// Where says where Text belongs, such as a file; it ends a sentence that begins with the title.
	Where string
	// Text is a command for a shell, or the content of a file.
	Text string
	// Then says what to do next.
	Then string
}

// Names returns the names of all clients, in the order of [For].
func Names() []string {
	var names []string
	for _, c := range For("", "", Open) {
		names = append(names, c.Name)
	}
	return names
}

// For returns all clients with what points them at an endpoint, under a name of the user's choice.
func For(endpoint, name string, access Access) []Client {
	shellHeader := ""
	headers := map[string]map[string]string{} // by client
	if access == Token {
		shellHeader = ` --header "Authorization: Bearer $` + TokenVariable + `"`
		headers["vscode"] = map[string]string{"Authorization": "Bearer ${input:promptweir-token}"}
		headers["cursor"] = map[string]string{"Authorization": "Bearer ${env:" + TokenVariable +
			"}"}
	}
	vscode := vscodeFile{Servers: map[string]server{name: {
		Type: "http", URL: endpoint,
		Headers: headers["vscode"],
	}}}
	if access == Token {
		vscode.Inputs = []promptString{{
			"promptString", "promptweir-token",
			"The token for promptweir", true,
		}}
	}
	return []Client{
		{
			Name: "claude", Title: "Claude Code", Where: "in a shell",
			Text: "claude mcp add --transport http " + ShellWord(name) + " " + ShellWord(endpoint) +
				shellHeader,
			Then: "In a session, type / and the name of a prompt; /mcp shows the connection, and signs in.",
		},
		{
			Name: "vscode", Title: "VS Code", Where: "in .vscode/mcp.json",
			Text: indent(vscode),
			Then: "In the chat, type / and the name of a prompt.",
		},
		{
			Name: "cursor", Title: "Cursor", Where: "in ~/.cursor/mcp.json",
			Text: indent(cursorFile{Servers: map[string]server{name: {
				URL:     endpoint,
				Headers: headers["cursor"],
			}}}),
			Then: "In the chat, type / and the name of a prompt.",
		},
		{
			Name: "inspector", Title: "MCP Inspector", Where: "in a shell",
			Text: "npx @modelcontextprotocol/inspector --cli " + ShellWord(endpoint) +
				" --transport http --method prompts/list" + shellHeader,
			Then: "It prints the prompts that you may use.",
		},
	}
}

// server is a server in the file of a client.
type server struct {
	Type    string            `json:"type,omitempty"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
}

type cursorFile struct {
	Servers map[string]server `json:"mcpServers"`
}

type vscodeFile struct {
	Inputs  []promptString    `json:"inputs,omitempty"`
	Servers map[string]server `json:"servers"`
}

// promptString is something that VS Code asks for once, and then keeps.
type promptString struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	Description string `json:"description"`
	Password    bool   `json:"password"`
}

// indent returns a file as JSON, as people write it.
func indent(file any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(file); err != nil {
		panic(err) // strings always have a form in JSON
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// plainInShell are the characters that a shell takes as they are.
const plainInShell = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+:,./-"

// ShellWord quotes a word for a POSIX shell, where it has to be.
func ShellWord(word string) string {
	if word != "" && strings.Trim(word, plainInShell) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
