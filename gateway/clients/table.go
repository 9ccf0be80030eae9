package clients

import (
	"slices"
	"strings"

	"go.mau.fi/util/exslices"
)

// Client is a program that uses prompts over MCP.
type Client struct {
	// Name is the client's name on the command line. Also is a second name, or "" if the client has only one
	// name.
	Name, Also string
	// Title is the client's name for people.
	Title string
	// Seen is the examined version, or the month of the examination. By is the method: a run of the client,
	// or reading its source, issue threads or documentation.
	Seen, By string
	// Sync is the target of promptweir sync for the client, or "" if there is none.
	Sync string

	behaviours []*behaviour
}

// All returns all clients. Package clientsetup configures some of them; its README has a row for each client.
func All() []Client {
	return []Client{
		{"claude", "claude-code", "Claude Code", "2.1", "run", "claude", does(splitsAtBlanks, joinsMessages, showsNoTitles)},
		{"vscode", "", "VS Code", "2026-11", "source: pull requests 249139, " +
			"249673, 250909", "vscode", does(foldsNames)},
		{"cursor", "", "Cursor", "2026-11", "documentation", "cursor", nil},
		{"claude-desktop", "", "Claude Desktop", "2026-11", "thread", "", does(readsOnePage)},
		{"claude.ai", "", "claude.ai", "2026-11", "thread", "", does(readsOnePage)},
		{
			"gemini", "", "Gemini CLI", "0.61", "run", "gemini",
			does(readsOnePage, refusesOther, usesFirstMessage, quotesText, foldsBlanks, showsNoTitles),
		},
		{
			"opencode", "", "opencode", "1.18", "run", "",
			does(dropsOther, joinsMessages, sendsPlaceholders, foldsDots, showsNoTitles),
		},
		{"opencode-old", "", "older opencode", "2026-08", "source", "", does(readsOnePage)},
		{"zed", "", "Zed", "2025-12", "source: issue 21944, pull request 43523", "", does(hidesSeveralArguments)},
		{"goose", "", "goose, command line", "1.19", "thread: issue 6506", "", does(usesLastMessage)},
		{"docker-agent", "", "docker-agent", "2026-11", "source: pull request 3565", "", does(fillsFirstArgument)},
		{"continue", "", "Continue", "2026-11", "source: MCPConnection.ts", "", does(readsOnePage)},
		{"cline", "", "Cline", "2026-08", "source: McpHub.ts", "", does(readsOnePage, getsNone)},
		{"inspector", "", "MCP Inspector", "2.12", "run", "", does(showsTitlesOnly)},
		{"inspector-0.15", "", "Inspector 0.15", "0.15", "run", "", does(readsOnePage)},
		{"typescript-1", "", "TypeScript SDK 1.x, listPrompts()", "1.32", "run", "", does(readsOnePage)},
		{"typescript-2", "", "TypeScript SDK 2.x", "2.4", "run", "", nil},
		{"windsurf", "", "Windsurf", "2026-11", "documentation", "", does(knowsNone)},
		{"codex", "", "Codex", "2026-11", "thread", "codex", does(knowsNone)},
		{"copilot", "", "Copilot CLI", "1.0", "run", "", does(knowsNone)},
		{"github-app", "", "github/app", "2026-11", "thread", "", does(knowsNone)},
		{"chatgpt", "", "ChatGPT", "2026-11", "documentation", "", does(knowsNone)},
		{"claude-vscode", "", "Claude Code in VS Code", "2026-11", "thread: claude-code 30738, " +
			"14078, 94376", "claude", does(knowsNone)},
		{"lm-studio", "", "LM Studio", "2026-11", "thread", "", does(knowsNone)},
		{"open-webui", "", "Open WebUI", "2026-11", "thread", "", does(knowsNone)},
		{"librechat", "", "LibreChat", "2026-11", "thread", "", does(knowsNone)},
		{"zoo-code", "", "Zoo-Code", "2026-11", "thread", "", does(knowsNone)},
	}
}

// Is reports whether name is the client's first or second name.
func (c *Client) Is(name string) bool { return name == c.Name || name != "" && name == c.Also }

func does(all ...*behaviour) []*behaviour { return all }

// Names returns the names of all clients.
func Names() []string {
	return exslices.CastFunc(All(), func(c Client) string { return c.Name })
}

// Find returns the client whose first or second name is name, or nil if no client has this name.
func Find(name string) *Client {
	all := All()
	i := slices.IndexFunc(all, func(c Client) bool { return c.Is(name) })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// FirstPageOnly returns the titles of the clients that never request a second page, separated by commas.
func FirstPageOnly() string {
	var titles []string
	for _, c := range All() {
		if slices.Contains(c.behaviours, readsOnePage) {
			titles = append(titles, c.Title)
		}
	}
	return strings.Join(titles, ", ")
}
