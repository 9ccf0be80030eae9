package clientsetup

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"go.mau.fi/util/exslices"
	"go.yaml.in/yaml/v3"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/clientfile"
	"github.com/promptweir/promptweir/gateway/clients"
)

// Access is the kind of credential that a client needs.
type Access int

// The kinds of access.
const (
	Open        Access = iota // no credential
	SignIn                    // the client finds the identity provider, and its user signs in there
	Token                     // a bearer token
	Certificate               // a client certificate
)

// AccessOf returns the access for an auth block, which may be nil. If the block accepts several kinds of
// credentials, it returns the easiest one for people.
func AccessOf(auth *config.Auth) Access {
	switch {
	case auth == nil || auth.Anonymous: // clients are never refused, so they do not start a sign-in
		return Open
	case len(auth.JWTs) > 0:
		return SignIn
	case len(auth.Tokens) > 0:
		return Token
	default:
		return Certificate
	}
}

// Registration is the public OAuth client that the identity provider has registered for MCP clients. The zero
// value means that clients register themselves.
type Registration struct {
	ClientID string
	// Port is the port of the redirect URIs, or 0 if clients may choose a port.
	Port int
	// Scopes are for clients that do not read the scopes from the gateway.
	Scopes []string
}

// RegistrationOf returns the registration in an auth block, from the first issuer that has one, or the zero
// value if no issuer has one.
func RegistrationOf(auth *config.Auth) Registration {
	if AccessOf(auth) == SignIn {
		for _, j := range auth.JWTs {
			if j.ClientID != "" {
				return Registration{j.ClientID, j.CallbackPort, j.RequestScopes}
			}
		}
	}
	return Registration{}
}

// settings returns the registration as an object for a client's file, or nil if there is no registration. id
// and port are that file's field names. If port is empty, the port is left out.
func (r Registration) settings(id, port string) map[string]any {
	if r.ClientID == "" {
		return nil
	}
	settings := map[string]any{id: r.ClientID}
	if r.Port != 0 && port != "" {
		settings[port] = r.Port
	}
	return settings
}

// TokenVariable is the environment variable from which configured clients read the token.
const TokenVariable = "PROMPTWEIR_TOKEN"

// Client describes a program that speaks MCP, and how to connect it to a gateway.
type Client struct {
	// Name and Title are the same as in package clients.
	Name, Title string
	// Where is the place for Text, such as "in a shell". Messages print it after the title.
	Where string
	// Text is a command for a shell, or the content of a file.
	Text string
	// Then contains the user's next steps, in sentences.
	Then string
	// Cannot explains why the client shows no prompts at this endpoint, with a remedy. It is empty if the
	// client shows prompts.
	Cannot string
	// Link is a URL that opens the client, which then offers to add the gateway. It is "" if the client has no
	// such URL.
	Link string
	// File is the client's file, in the home folder if it begins with ~/ and otherwise in the working
	// directory. It is "" if promptweir cannot edit the client's file. Edits are the changes that add Text to
	// the file.
	File  string
	Edits []clientfile.Edit
}

// Names returns the names of all clients, in the order of [For].
func Names() []string {
	return exslices.CastFunc(For("", "", Open, Registration{}), func(c Client) string { return c.Name })
}

// For returns all clients, configured for an endpoint under a name of the user's choice. variants are the
// variants that are on; each client uses the variant at which it loses least. File names are for this operating
// system.
func For(endpoint, name string, access Access, r Registration, variants ...config.Variant) []Client {
	flat, flatNext := fitting(endpoint, config.VariantFlat, variants)
	tools, toolsNext := fitting(endpoint, config.VariantTools, variants)
	cannot := ""
	if tools == endpoint && !strings.HasSuffix(endpoint, "/"+string(config.VariantTools)) {
		cannot = "shows no prompts at " + endpoint + ", because it supports tools only." + toolsNext
	}
	shellHeader, shellClient, signIn := "", "", func(string) string { return "" }
	headers := func(string) map[string]string { return nil }
	switch access {
	case Token:
		shellHeader = ` --header "Authorization: Bearer $` + TokenVariable + `"`
		headers = func(token string) map[string]string {
			return map[string]string{"Authorization": "Bearer " + token}
		}
	case SignIn:
		signIn = func(how string) string { return how }
	case Open, Certificate:
	}
	claude := server{Type: "http", URL: endpoint, Headers: headers("${" + TokenVariable + "}"), OAuth: r.settings("clientId", "callbackPort")}
	if r.ClientID != "" {
		shellClient = " --client-id " + ShellWord(r.ClientID)
	}
	if r.Port != 0 {
		shellClient += " --callback-port " + strconv.Itoa(r.Port)
	}
	desktop := bridge(endpoint, access, r)
	all := []Client{
		{
			Name: "claude", Where: "in a shell",
			Text: "claude mcp add --transport http " + ShellWord(name) + " " + ShellWord(endpoint) + shellHeader + shellClient,
			Then: "In a session, type / and the name of a prompt; /mcp shows the connection" +
				signIn(", and signs in") + ".",
			File: ".mcp.json", Edits: addTo("mcpServers", name, claude),
		},
		vscode(name, server{
			Type: "http", URL: endpoint, Headers: headers("${input:promptweir-token}"), OAuth: r.settings("clientId", ""),
		}),
		cursor(name, server{URL: endpoint, Headers: headers("${env:" + TokenVariable + "}"), Auth: r.settings("CLIENT_ID", "")}),
		inFile(Client{
			Name:  "claude-desktop",
			Where: "in the file under Settings, Developer, Edit Config; it needs Node",
			Then:  placeholder(access) + "Restart it. The prompts are in the + menu beside the message.",
			File:  systemFile("Claude/claude_desktop_config.json", true),
		}, "mcpServers", name, desktop),
		inFile(Client{
			Name: "gemini", Where: "in ~/.gemini/settings.json",
			Then: "Type / and the name of a prompt" + signIn("; /mcp auth signs in") + ". It uses only the first of several messages." + flatNext,
			File: "~/.gemini/settings.json",
		}, "mcpServers", name, server{HTTPURL: flat, Headers: headers("$" + TokenVariable), OAuth: r.gemini()}),
		inFile(Client{
			Name: "zed", Where: "in the file that the command zed: open settings file opens",
			Then: placeholder(access) + "In an agent thread, type / and the name of a prompt. " +
				"It hides prompts with several arguments." + flatNext,
			File: systemFile("zed/settings.json", false),
		}, "context_servers", name, server{URL: flat, Headers: headers(tokenPlace), OAuth: r.settings("client_id", "")}),
		inFile(Client{
			Name: "opencode", Where: "in ~/.config/opencode/opencode.json",
			Then: "Type / and the name of a prompt" + signIn("; opencode mcp auth "+ShellWord(name)+" signs in") + ".",
			File: "~/.config/opencode/opencode.json",
		}, "mcp", name, server{
			Type: "remote", URL: endpoint, Headers: headers("{env:" + TokenVariable + "}"), OAuth: r.settings("clientId", "callbackPort"),
		}),
		goose(flat, name, headers("${"+TokenVariable+"}"), r, "It uses only the last of several messages."+flatNext),
		inFile(Client{
			Name: "windsurf", Where: "in ~/.codeium/windsurf/mcp_config.json",
			Then: "It supports tools only." + toolsNext,
			File: "~/.codeium/windsurf/mcp_config.json", Cannot: cannot,
		}, "mcpServers", name, server{ServerURL: tools, Headers: headers("${env:" + TokenVariable + "}")}),
		codex(tools, name, access, r, "It supports tools only."+toolsNext, cannot),
		{
			Name: "inspector", Where: "in a shell",
			Text: "npx @modelcontextprotocol/inspector --cli " + ShellWord(endpoint) +
				" --transport http --method prompts/list" + shellHeader,
			Then: "It prints your prompts.",
		},
	}
	for i := range all {
		all[i].Title = clients.Find(all[i].Name).Title
	}
	return all
}

// fitting returns the URL of a variant, and a sentence about it for the user. If the variant is off, it
// returns the endpoint, and a sentence with the setting that turns the variant on.
func fitting(endpoint string, variant config.Variant, on []config.Variant) (url, next string) {
	url = endpoint + "/" + string(variant)
	if strings.HasSuffix(endpoint, "/"+string(variant)) {
		url, on = endpoint, []config.Variant{variant}
	}
	if !slices.Contains(on, variant) {
		return endpoint, " With variants = [\"" + string(variant) + "\"] in the gateway block, use " + url + "."
	}
	if variant == config.VariantTools {
		return url, " Ask it to look for a prompt: the model chooses."
	}
	return url, " At this URL, each prompt is one message with at most one argument."
}

func codex(endpoint, name string, access Access, r Registration, then, cannot string) Client {
	text, port := "codex mcp add "+ShellWord(name)+" --url "+ShellWord(endpoint), ""
	if r.Port != 0 {
		port = " -c mcp_oauth_callback_port=" + strconv.Itoa(r.Port)
	}
	if r.ClientID != "" {
		text += " --oauth-client-id " + ShellWord(r.ClientID) + port
	}
	if cannot != "" {
		cannot += " Or write the prompts as its files: promptweir sync --to codex --url " + ShellWord(endpoint)
	}
	switch access {
	case Token:
		text += " --bearer-token-env-var " + TokenVariable
	case SignIn:
		then += " codex mcp login " + ShellWord(name) + port
		if len(r.Scopes) > 0 {
			then += " --scopes " + ShellWord(strings.Join(r.Scopes, ","))
		}
		then += " signs in."
	case Open, Certificate:
	}
	return Client{Name: "codex", Where: "in a shell", Text: text, Then: then, Cannot: cannot}
}

// goose returns the client goose, whose file is YAML.
func goose(endpoint, name string, headers map[string]string, r Registration, then string) Client {
	extension := map[string]any{"enabled": true, "type": "streamable_http", "name": name, "uri": endpoint}
	maps.Copy(extension, r.settings("client_id", ""))
	if headers != nil {
		extension["headers"], extension["env_keys"] = headers, []string{TokenVariable}
	}
	text, err := yaml.Marshal(map[string]any{"extensions": map[string]any{name: extension}})
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return Client{
		Name: "goose", Where: "in ~/.config/goose/config.yaml", Text: strings.TrimSuffix(string(text), "\n"),
		Then: "In a session, type /prompt and the name of a prompt. " + then,
	}
}

// gemini returns the registration for Gemini CLI's file, or nil if there is no registration. If its file has no
// scopes, Gemini CLI requests those that the provider advertises.
func (r Registration) gemini() map[string]any {
	settings := r.settings("clientId", "")
	if settings == nil {
		return nil
	}
	settings["enabled"] = true
	if len(r.Scopes) > 0 {
		settings["scopes"] = r.Scopes
	}
	if r.Port != 0 {
		settings["redirectUri"] = "http://localhost:" + strconv.Itoa(r.Port) + "/oauth/callback"
	}
	return settings
}

// tokenPlace is the placeholder for the token in files of clients that cannot read it from a variable.
const tokenPlace = "YOUR-TOKEN"

func placeholder(access Access) string {
	if access == Token {
		return "Replace " + tokenPlace + " with your token. "
	}
	return ""
}

// server is a server in a client's file. Clients have different fields for its URL.
type server struct {
	Type      string            `json:"type,omitempty"`
	URL       string            `json:"url,omitempty"`
	HTTPURL   string            `json:"httpUrl,omitempty"`
	ServerURL string            `json:"serverUrl,omitempty"`
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	OAuth     map[string]any    `json:"oauth,omitempty"`
	Auth      map[string]any    `json:"auth,omitempty"`
}

// bridge returns a server that runs mcp-remote, for clients whose file supports child processes only.
func bridge(endpoint string, access Access, r Registration) server {
	s := server{Command: "npx", Args: []string{"-y", "mcp-remote", endpoint}}
	if r.Port != 0 {
		s.Args = append(s.Args, strconv.Itoa(r.Port))
	}
	if r.ClientID != "" {
		s.Args = append(s.Args, "--static-oauth-client-info", encode(r.settings("client_id", ""), ""))
		if len(r.Scopes) > 0 {
			s.Args = append(s.Args, "--static-oauth-client-metadata", encode(map[string]string{"scope": strings.Join(r.Scopes, " ")}, ""))
		}
	}
	// Without this flag, mcp-remote refuses http, except to this machine.
	if u, err := url.Parse(endpoint); err == nil && u.Scheme == "http" {
		s.Args = append(s.Args, "--allow-http")
	}
	if access == Token { // in a variable: on Windows, spaces in arguments are lost
		s.Args = append(s.Args, "--header", "Authorization:${AUTHORIZATION}")
		s.Env = map[string]string{"AUTHORIZATION": "Bearer " + tokenPlace}
	}
	return s
}

// systemFile returns the path of a program's settings on this operating system. onMacInLibrary is for
// programs whose macOS folder is in Library.
func systemFile(path string, onMacInLibrary bool) string {
	switch {
	case runtime.GOOS == "windows":
		return "~/AppData/Roaming/" + path
	case runtime.GOOS == "darwin" && onMacInLibrary:
		return "~/Library/Application Support/" + path
	}
	return "~/.config/" + path
}

func addTo(servers, name string, s server) []clientfile.Edit {
	return []clientfile.Edit{{Path: []string{servers, name}, Value: s}}
}

// inFile sets Text and Edits of a client that is configured in a JSON file, under the key servers.
func inFile(c Client, servers, name string, s server) Client {
	c.Text, c.Edits = indent(map[string]any{servers: map[string]server{name: s}}), addTo(servers, name, s)
	return c
}

func cursor(name string, s server) Client {
	return inFile(Client{
		Name: "cursor", Where: "in ~/.cursor/mcp.json", File: "~/.cursor/mcp.json",
		Then: "In the chat, type / and the name of a prompt.",
		Link: "cursor://anysphere.cursor-deeplink/mcp/install?name=" + escaped(name) + "&config=" +
			escaped(base64.StdEncoding.EncodeToString([]byte(encode(s, "")))),
	}, "mcpServers", name, s)
}

// promptString declares a value that VS Code asks for once and stores.
type promptString struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	Description string `json:"description"`
	Password    bool   `json:"password"`
}

func vscode(name string, s server) Client {
	link := struct {
		Name string `json:"name"`
		server
		Inputs []promptString `json:"inputs,omitempty"`
	}{Name: name, server: s}
	c := inFile(Client{
		Name: "vscode", Where: "in .vscode/mcp.json", File: ".vscode/mcp.json",
		Then: "In the chat, type / and the name of a prompt.",
	}, "servers", name, s)
	if s.Headers != nil {
		input := promptString{"promptString", "promptweir-token", "The token for promptweir", true}
		link.Inputs = []promptString{input}
		c.Text = indent(map[string]any{"inputs": link.Inputs, "servers": map[string]server{name: s}})
		c.Edits = append(c.Edits, clientfile.Edit{Path: []string{"inputs"}, Value: input, IsElement: true})
	}
	c.Link = "vscode:mcp/install?" + escaped(encode(link, ""))
	return c
}

// escaped escapes a text like JavaScript's encodeURIComponent, which clients expect.
func escaped(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// indent returns a file as indented JSON.
func indent(file any) string { return encode(file, "  ") }

func encode(value any, unit string) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	// People copy the text, so the & of an address must not become \u0026.
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", unit)
	if err := encoder.Encode(value); err != nil {
		panic(err) // strings can always be encoded
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// plainInShell are the characters that need no quotes in a shell.
const plainInShell = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+:,./-"

// ShellWord quotes a word for a POSIX shell if it needs quotes.
func ShellWord(word string) string {
	if word != "" && strings.Trim(word, plainInShell) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
