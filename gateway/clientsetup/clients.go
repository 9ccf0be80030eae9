package clientsetup

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

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

//go:embed page.css
var pageCSS string

// pagePolicy allows nothing but the one style sheet, whatever the address may contain.
var pagePolicy = func() string { //nolint:gochecknoglobals // constant
	sum := sha256.Sum256([]byte(pageCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// ServePage answers a browser with a page on how to point clients at an endpoint.
func ServePage(w http.ResponseWriter, endpoint string, access Access) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", pagePolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	header.Add("Vary", "Accept")
	_ = page(endpoint, access).Render(w) // an error means that the browser has gone
}

func page(endpoint string, access Access) g.Node {
	return h.Doctype(h.HTML(h.Lang("en"),
		h.Head(
			g.Raw(`<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">`+
				`<title>promptweir: prompts for MCP clients</title>`),
			h.StyleEl(g.Raw(pageCSS)),
		),
		h.Body(
			g.Raw(`<header><h1>promptweir</h1><p>This address is for MCP clients. It serves prompts: point your `+
				`client at it, and the prompts that you may use are in its menu of slash commands, always up to `+
				`date.</p></header>`),
			h.Main(
				h.Dl(
					h.Dt(g.Text("Endpoint")), h.Dd(h.Code(h.ID("endpoint"), g.Text(endpoint)), g.Text(" (Streamable HTTP)")),
					h.Dt(g.Text("Access")), h.Dd(h.ID("access"), access.describe()),
				),
				g.Map(For(endpoint, "prompts", access), func(client Client) g.Node {
					return h.Section(h.ID(client.Name), h.H2(g.Text(client.Title)), h.P(g.Text(client.Where+":")),
						h.Pre(h.Code(g.Text(client.Text))), h.P(h.Class("quiet"), g.Text(client.Then)))
				}),
				g.Raw(`<section><h2>Any other client</h2><p>Add a server with the transport <q>HTTP</q> or `+
					`<q>Streamable HTTP</q>, and the endpoint above as its URL.</p></section>`),
			),
		),
	))
}

// describe says how clients authenticate.
func (a Access) describe() g.Node {
	switch a {
	case SignIn:
		return g.Text("You sign in: your client opens a browser when it connects for the first time.")
	case Token:
		return g.Raw("You need a token from the people who run this gateway. Set it as <code>" + TokenVariable +
			"</code> where your client runs.")
	case Certificate:
		return g.Text("Your client needs a certificate from the people who run this gateway.")
	}
	return g.Text("You need nothing else.")
}

// IsBrowser reports whether a request comes from the address bar of a browser rather than from an
// MCP client: it wants HTML, by name, and no stream of events.
func IsBrowser(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	wantsHTML := false
	for _, value := range r.Header["Accept"] {
		for item := range strings.SplitSeq(value, ",") {
			name, _, _ := strings.Cut(item, ";")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "text/html":
				wantsHTML = true
			case "text/event-stream":
				return false
			}
		}
	}
	return wantsHTML
}
