package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// view returns the view of a catalog with some definitions.
func view(t *testing.T, definitions ...string) *catalog.View {
	t.Helper()
	source := catalog.Source{Upstream: "u", Team: "t"}
	for _, d := range definitions {
		prompt, err := catalog.ParsePrompt(jsontext.Value(d))
		if err != nil {
			t.Fatal(err)
		}
		source.Prompts = append(source.Prompts, &prompt)
	}
	return catalog.Merge([]catalog.Source{source}, catalog.Options{Separator: "."}).View(func(*catalog.Entry) bool { return true })
}

func TestLosses_FollowFromDefinitionListAndMessages(t *testing.T) {
	const two, one = `{"name": "x", "arguments": [{"name": "a"}, {"name": "b"}]}`, `{"name": "x", "arguments": [{"name": "a"}]}`
	messages := func(all ...string) string { return `{"messages": [` + strings.Join(all, ",") + `]}` }
	text := func(role, text string) string {
		return fmt.Sprintf(`{"role": %q, "content": {"type": "text", "text": %q}}`, role, text)
	}
	image := `{"role": "user", "content": {"type": "image", "data": "", "mimeType": "image/png"}}`
	for name, test := range map[string]struct {
		definitions []string // the prompt is x
		result      string   // empty where it is unknown
		client      string
		want        []string // kinds and reasons
	}{
		"plain in Claude Code":        {definitions: []string{`{"name": "x"}`}, client: "claude-code"},
		"words":                       {definitions: []string{one}, client: "claude", want: []string{"garbles input is split at blanks, even in quotes, and words after the last argument are dropped: a"}},
		"roles":                       {definitions: []string{`{"name": "x"}`}, result: messages(text("user", "a"), text("assistant", "b")), client: "claude", want: []string{"garbles all messages get the role of the user"}},
		"roles, all of the user":      {definitions: []string{`{"name": "x"}`}, result: messages(text("user", "a"), text("user", "b")), client: "claude"},
		"title":                       {definitions: []string{`{"name": "x", "title": "X"}`}, client: "claude", want: []string{"cuts titles are not shown: X"}},
		"title and description":       {definitions: []string{`{"name": "x", "title": "X", "description": "d"}`}, client: "claude"},
		"two arguments in Zed":        {definitions: []string{two}, client: "zed", want: []string{"hides prompts with several arguments are not shown: a, b"}},
		"one argument in Zed":         {definitions: []string{one}, client: "zed"},
		"two in docker-agent":         {definitions: []string{two}, client: "docker-agent", want: []string{"garbles everything typed is the first argument: a, b"}},
		"Gemini, unknown messages":    {definitions: []string{two}, client: "gemini"},
		"Gemini, one word":            {definitions: []string{two}, result: messages(text("user", "ok")), client: "gemini"},
		"Gemini, several messages":    {definitions: []string{two}, result: messages(text("user", "a"), text("user", "b")), client: "gemini", want: []string{"cuts only the first message is used: it has 2"}},
		"Gemini, lines":               {definitions: []string{two}, result: messages(text("user", "a\nb")), client: "gemini", want: []string{`garbles the text becomes a JSON string, with \n for a line break`}},
		"Gemini, letters of no ASCII": {definitions: []string{two}, result: messages(text("user", "ä…")), client: "gemini"},
		"Gemini, image":               {definitions: []string{`{"name": "x"}`}, result: messages(image), client: "gemini", want: []string{"hides a prompt is refused unless its first message is text"}},
		"goose":                       {definitions: []string{`{"name": "x"}`}, result: messages(text("user", "a"), image), client: "goose", want: []string{"cuts only the last message is used: it has 2"}},
		"opencode, image":             {definitions: []string{`{"name": "x"}`}, result: messages(text("user", "a"), image), client: "opencode", want: []string{"cuts everything but text is left out: image"}},
		"opencode, of a server":       {definitions: []string{one}, client: "opencode", want: []string{"garbles the server gets $1, $2 … as values; the real ones replace them in its text: a"}},
		"opencode, of a file":         {definitions: []string{one}, result: messages(text("user", "a")), client: "opencode"},
		"no prompts":                  {definitions: []string{`{"name": "x"}`}, client: "codex", want: []string{"hides only tools are shown"}},
		"first page":                  {definitions: []string{`{"name": "x"}`, `{"name": "a"}`}, client: "claude.ai"},
		"second page":                 {definitions: []string{`{"name": "x"}`, `{"name": "a"}`, `{"name": "b"}`}, client: "claude.ai", want: []string{"hides only the first page of a list is read: this is prompt 3, and the page has 2"}},
		"equal titles":                {definitions: []string{`{"name": "x", "title": "T"}`, `{"name": "y", "title": "T"}`, `{"name": "z"}`}, client: "inspector", want: []string{"garbles titles are shown instead of names: y is called T too"}},
		"no titles":                   {definitions: []string{`{"name": "x"}`, `{"name": "y"}`}, client: "inspector"},
	} {
		t.Run(name, func(t *testing.T) {
			list := NewList(view(t, test.definitions...), 2)
			prompt := Prompt{Entry: list.entries[slices.IndexFunc(list.entries, func(e *catalog.Entry) bool { return e.Name == "x" })]}
			if test.result != "" {
				prompt.Result = jsontext.Value(test.result)
			}
			var got []string
			for _, loss := range list.Losses(prompt, []Client{*Find(test.client)}) {
				got = append(got, string(loss.Kind)+" "+loss.Reason)
				if loss.Prompt != "x" || loss.Remedy == "" || !Find(test.client).Is(loss.Client) {
					t.Errorf("loss %+v", loss)
				}
			}
			upstreamtest.Equal(t, test.want, got, "losses")
		})
	}
}

func TestLosses_OfNames(t *testing.T) {
	for _, test := range []struct{ names, client, want string }{
		{"a.b", "opencode", ""}, // the separator, alone
		{"a.b a_b", "opencode", "a_b is called a_b too"},
		{"a.b a_b", "vscode", ""},
		{"a/b", "vscode", "it is called a_b"},
		{"a/b a:b", "vscode", "a:b is called a_b too"},
		{"a/b", "gemini", ""},
		{"é", "opencode", "it is called _"},
	} {
		var definitions []string
		for name := range strings.FieldsSeq(test.names) {
			definitions = append(definitions, fmt.Sprintf(`{"name": %q}`, name))
		}
		first, _, _ := strings.Cut(test.names, " ")
		v, got := view(t, definitions...), ""
		for _, loss := range NewList(v, 10).Losses(Prompt{Entry: v.Lookup(first)}, []Client{*Find(test.client)}) {
			_, got, _ = strings.Cut(loss.Reason, "name: ")
		}
		upstreamtest.Equal(t, test.want, got, "%s in %s", test.names, test.client)
	}
}

// Every client has a name of its own, and says where it was seen.
func TestAll_IsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range All() {
		how, _, _ := strings.Cut(c.By, ":")
		if seen[c.Name] || seen[c.Title] || c.Seen == "" || !slices.Contains([]string{"run", "source", "thread", "documentation"}, how) {
			t.Errorf("%+v", c)
		}
		seen[c.Name], seen[c.Title] = true, true
	}
}

// The table of losses has the rows of package clients.
func TestReadme_HasWhatClientsLose(t *testing.T) {
	readme, err := os.ReadFile(filepath.FromSlash("../clientsetup/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(readme), "\n| client | seen | loses at the endpoint | at `/flat` | through `sync` |\n| --- | --- | --- | --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var want []string
	for _, c := range All() {
		want = append(want, "| "+strings.Join(c.row(), " | ")+" |")
	}
	upstreamtest.Equal(t, want, strings.Split(table, "\n"), "table")
}

// syncLoses names the losses in the files of a sync target.
var syncLoses = map[string]string{ //nolint:gochecknoglobals // a constant table
	"codex": "placeholders of arguments", "cursor": "placeholders of arguments", "gemini": "placeholders of several arguments",
}

// row is a client's row in the table of the page: what it loses at the endpoint, at /flat and
// through sync.
func (c *Client) row() []string {
	var plain, flat []string
	for _, b := range c.behaviours {
		plain = append(plain, b.loses)
		if b.atFlat {
			flat = append(flat, b.loses)
		}
	}
	sync := "–"
	if c.Sync != "" {
		sync = orNothing(syncLoses[c.Sync])
	}
	join := func(all []string) string { return orNothing(strings.Join(all, "; ")) }
	if len(flat) > 0 && len(flat) == len(plain) {
		flat = []string{"the same"}
	}
	return []string{c.Title, c.Seen + ", " + c.By, join(plain), join(flat), sync}
}

func orNothing(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}
