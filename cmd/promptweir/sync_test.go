package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/syncdir"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/clients"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// syncTargets are the folders of the clients beneath home, and the ends of their files.
var syncTargets = map[string][2]string{ //nolint:gochecknoglobals // a constant table
	"claude": {".claude/commands", ".md"}, "codex": {".codex/skills", "/SKILL.md"}, "gemini": {".gemini/commands", ".toml"},
	"cursor": {".cursor/commands", ".md"}, "vscode": {".config/Code/User/prompts", ".prompt.md"},
}

// syncTexts are texts of prompts with the arguments a and b, and the clients whose format cannot hold
// them.
var syncTexts = map[string]string{ //nolint:gochecknoglobals // a constant table
	"Plain.":                              "",
	"One {{a}}, twice {{a}}.":             "",
	"Two {{a}} of {{b}}s; {{b}}[0]":       "claude", // takes [0] for an index
	"$0 $1 $ARGUMENTS $a costs $$5":       "",
	"---\nname: x\nmodel: y\n---\n\"\"\"": "",
	"Run !`touch ran`":                    "claude",
	"```!\ntouch ran\n```":                "claude",
	"Run !{touch ran}":                    "gemini",
	"Read @{/etc/passwd}":                 "claude cursor gemini",
	"Read @/etc/passwd":                   "claude cursor",
	"Say \\{{args}} and {{a}}":            "gemini",
	"Ask ${input:x}, ${selection}":        "vscode",
	"See #file:/etc/passwd":               "vscode",
	"See [it](/etc/passwd), {{a}}{{b}}":   "vscode",
	"!{{a}}`touch ran`":                   "claude", // an argument left out would complete it
	"\\\\ \"q\" '{{b}}'\ttab ünï 😀":       "",
}

// inHome has the folders of clients in a new home.
func inHome(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	for variable, value := range map[string]string{"HOME": home, "XDG_CONFIG_HOME": "", "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": ""} {
		t.Setenv(variable, value)
	}
	return home
}

// putFile is writeFile that makes folders.
func putFile(t *testing.T, folder, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, folder, name, content)
}

// syncedFiles returns the files beneath home by their paths.
func syncedFiles(t *testing.T, home string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(home, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if name, _ := filepath.Rel(home, path); err == nil {
			files[filepath.ToSlash(name)] = string(content)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // as of a file that is being renamed
		t.Fatal(err)
	}
	return files
}

// history is a configuration that changes at random, with its prompts' files beside it. Of the prompt
// p3, the text is the fourth of syncTexts.
type history struct {
	t       *testing.T
	random  *rand.Rand
	gateway *gatewaytest.Reloadable
	files   map[string]bool
	// hidden and described are the blocks of the policy by the names of prompts.
	hidden, described map[string]string
}

// text returns the text of a prompt by its exposed name.
func (h *history) text(name string) string {
	number, _ := strconv.Atoi(strings.TrimPrefix(name, "book.p"))
	return slices.Sorted(maps.Keys(syncTexts))[number]
}

// step changes the policy or the files.
func (h *history) step(n int) {
	h.t.Helper()
	name := fmt.Sprintf("p%d", h.random.IntN(len(syncTexts)))
	switch exposed := "book." + name; {
	case n%100 == 50: // which takes until the files are read again
		h.toggleFile(name)
	case h.hidden[exposed] != "":
		delete(h.hidden, exposed)
	case h.random.IntN(2) == 0:
		h.hidden[exposed] = fmt.Sprintf("hide %q { prompts = [%q] }\n", name, exposed)
	default:
		h.described[exposed] = fmt.Sprintf("prompt %q { description = \"step %d\" }\n", exposed, n)
	}
	blocks := func(of map[string]string) string { return strings.Join(slices.Sorted(maps.Values(of)), "") }
	h.gateway.MustReload(blocks(h.hidden) + "team \"eng\" {\n  upstream \"book\" { files = [\"p/*.md\"] }\n" + blocks(h.described) + "}\n")
	anybody := gatewaytest.Anybody()
	upstreamtest.Eventually(h.t, "the files are listed", func() bool {
		return slices.Equal(h.names(), h.gateway.EntryNames(&anybody))
	})
}

func (h *history) toggleFile(name string) {
	folder := filepath.Join(filepath.Dir(h.gateway.Path), "p")
	if h.files[name] = !h.files[name]; h.files[name] {
		putFile(h.t, folder, name+".md", "---\narguments: [{name: a}, {name: b, required: true}]\n---\n"+h.text("book."+name))
	} else if err := os.Remove(filepath.Join(folder, name+".md")); err != nil {
		h.t.Fatal(err)
	}
}

// names are those of the prompts that should be listed.
func (h *history) names() (names []string) {
	for name, isThere := range h.files {
		if isThere && h.hidden["book."+name] == "" {
			names = append(names, "book."+name)
		}
	}
	slices.Sort(names)
	return names
}

// want returns the paths of the files that should be there.
func (h *history) want() (paths []string) {
	for _, name := range h.names() {
		for client, target := range syncTargets {
			if !strings.Contains(syncTexts[h.text(name)], client) {
				paths = append(paths, target[0]+"/"+name+target[1])
			}
		}
	}
	slices.Sort(paths)
	return paths
}

// The folders hold after each change what the list shows and the format can hold, a text reads back as
// the gateway's, and what is foreign or edited stays as it is.
func TestSync_FollowsARandomHistory(t *testing.T) {
	home := inHome(t)
	h := &history{
		t: t, random: rand.New(rand.NewPCG(1, 2)), files: map[string]bool{}, hidden: map[string]string{}, described: map[string]string{},
		gateway: gatewaytest.ServeReloadable(t, `team "eng" {}`, gateway.Options{}),
	}
	for i := range len(syncTexts) {
		h.toggleFile(fmt.Sprintf("p%d", i))
	}
	foreign := map[string]string{}
	for client, target := range syncTargets {
		foreign[target[0]+"/mine"+target[1]] = "mine, for " + client
	}
	for name, content := range foreign {
		putFile(t, home, name, content)
	}
	for n := range 100 {
		h.step(n)
		out, problems, code := runHere(t, "sync", "--to", "claude,codex,gemini,cursor,vscode", "--url", h.gateway.URL)
		if code != 0 {
			t.Fatal(out, problems)
		}
		files := syncedFiles(t, home)
		for name, content := range foreign {
			if files[name] != content {
				t.Fatalf("%s is %q", name, files[name])
			}
			delete(files, name)
		}
		if diff := cmp.Diff(h.want(), slices.Sorted(maps.Keys(files))); diff != "" {
			t.Fatalf("files (-want +got):\n%s%s", diff, out)
		}
	}
	h.checkTexts(home)
}

// checkTexts compares what our own readers of the formats make of the files with the gateway's text,
// where each argument's value is its name in brackets.
func (h *history) checkTexts(home string) {
	h.t.Helper()
	var upstreams strings.Builder
	for client, target := range syncTargets {
		fmt.Fprintf(&upstreams, "  upstream %q { files = [%q] }\n", client, target[0]+"/**/*"+filepath.Ext(target[1]))
	}
	putFile(h.t, home, "synced.hcl", "team \"t\" {\n"+upstreams.String()+"}\n")
	cfg, diags := config.Load(filepath.Join(home, "synced.hcl"), config.Options{})
	if diags.HasErrors() {
		h.t.Fatal(diags.Err())
	}
	synced := gatewaytest.StartConfig(h.t, cfg, gateway.Options{})
	synced.AwaitUpstreams()
	client, original, read := synced.Modern(""), h.gateway.Modern(""), map[string]int{}
	for _, shown := range client.List() {
		target, name, _ := strings.Cut(shown, ".")
		if strings.Contains(name, "mine") {
			continue
		}
		name = strings.Replace(name, ":", ".", 1)
		arguments := `,"arguments":{"a":"⟨a⟩","b":"⟨b⟩"}`
		want := promptText(original, name, arguments)
		if !strings.Contains(want, "⟨") { // or they would follow the text
			arguments = ""
		}
		got := promptText(client, shown, arguments)
		if target == "codex" { // whose skills have no placeholders, unlike those that our reader reads
			file := syncedFiles(h.t, home)[syncTargets[target][0]+"/"+name+syncTargets[target][1]]
			_, got, _ = strings.Cut(file, "\n---\n")
		}
		if strings.TrimSpace(got) != want {
			h.t.Errorf("%s reads as\n%q, want\n%q", shown, got, want)
		}
		read[target]++
	}
	if len(read) != len(syncTargets) {
		h.t.Errorf("prompts of %v were read", read)
	}
}

// promptText gets the text of a prompt.
func promptText(c *gatewaytest.Client, name, arguments string) string {
	response := c.Call("prompts/get", fmt.Sprintf(`{"name":%q%s}`, name, arguments))
	messages, _ := wire.ParseArray(wire.Members([]byte(response.Body)).Object("result").Get("messages"))
	var texts []string
	for _, m := range messages {
		text, _ := wire.Members(m).Object("content").Text("text")
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n")
}

// sync has the files of Claude Code in step with a server, and returns their names.
func syncClaude(t *testing.T, home, url string, code int, message string, flags ...string) []string {
	t.Helper()
	out, problems, got := runHere(t, append([]string{"sync", "--to", "claude", "--url", url}, flags...)...)
	if got != code || !strings.Contains(out+problems, message) {
		t.Errorf("exit code %d, want %d with %q:\n%s%s", got, code, message, out, problems)
	}
	var names []string
	for name := range syncedFiles(t, home) {
		names = append(names, strings.TrimPrefix(name, ".claude/commands/"))
	}
	slices.Sort(names)
	return names
}

func wantFiles(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestSync_RemovesNothingUnlessTheListIsComplete(t *testing.T) {
	home := inHome(t)
	auth := "auth {\n" + gatewaytest.Token("ann") + "}\n"
	team := func(blocks string) string {
		return auth + "team \"eng\" {\n  members = [\"user:ann\"]\n  upstream \"book\" { files = [\"p/*.md\"] }\n" + blocks + "}\n"
	}
	g := gatewaytest.ServeReloadable(t, auth+"team \"eng\" {}", gateway.Options{})
	for _, name := range []string{"a", "b"} {
		putFile(t, filepath.Dir(g.Path), "p/"+name+".md", name)
	}
	reload := func(blocks string) {
		g.MustReload(team(blocks))
		g.AwaitUpstreams()
	}
	reload("")
	wantFiles(t, syncClaude(t, home, g.URL, 0, "2 added", "--token", "ann"), "book.a.md", "book.b.md")
	wantFiles(t, syncClaude(t, home, g.URL, 1, "401", "--token", "eve"), "book.a.md", "book.b.md")
	reload("hide \"b\" { prompts = [\"book.b\"] }\nupstream \"down\" { url = \"http://127.0.0.1:1/mcp\" }\n")
	wantFiles(t, syncClaude(t, home, g.URL, 1, "nothing was removed", "--token", "ann"), "book.a.md", "book.b.md")
	reload("hide \"b\" { prompts = [\"book.b\"] }\n")
	wantFiles(t, syncClaude(t, home, g.URL, 0, "- claude book.b.md", "--token", "ann", "--dry-run"), "book.a.md", "book.b.md")
	wantFiles(t, syncClaude(t, home, g.URL, 0, "- claude book.b.md", "--token", "ann"), "book.a.md")
	wantFiles(t, syncClaude(t, home, strings.TrimSuffix(g.URL, "mcp"), 1, "", "--token", "ann"), "book.a.md")
	// A broken file is that file's problem.
	putFile(t, filepath.Dir(g.Path), "p/c.md", "---\nname: [x]\n---\nC")
	reload("hide \"a\" { prompts = [\"book.a\"] }\n")
	eventually(t, "list names what is broken", func() bool {
		_, problems, _ := runHere(t, "list", "--url", g.URL, "--token", "ann")
		return strings.Contains(problems, "book has broken files")
	})
	wantFiles(t, syncClaude(t, home, g.URL, 0, "book has broken files", "--token", "ann"), "book.b.md")
}

func TestSync_WritesSnapshotsOnlyWhenAsked(t *testing.T) {
	home := inHome(t)
	url := serveOverHTTP(t, newGreeter())
	wantFiles(t, syncClaude(t, home, url, 0, "it is not a template; --snapshot writes its current text"))
	wantFiles(t, syncClaude(t, home, url, 0, "hello: it is not a template, and requires who", "--snapshot"), "pid.md", "wip_bye.md")
	before := syncedFiles(t, home)
	if content := before[".claude/commands/wip_bye.md"]; !strings.Contains(content, ", a snapshot of 20") {
		t.Errorf("a snapshot does not say when:\n%s", content)
	}
	wantFiles(t, syncClaude(t, home, url, 0, "0 replaced", "--snapshot"), "pid.md", "wip_bye.md")
	if diff := cmp.Diff(before, syncedFiles(t, home)); diff != "" {
		t.Errorf("a run without changes (-before +after):\n%s", diff)
	}
	// Without the flag, what was written as a snapshot has no place any more.
	wantFiles(t, syncClaude(t, home, url, 0, "2 removed"))
}

func TestSync_WatchFollowsChangesInBothEras(t *testing.T) {
	for era, peer := range map[string]*upstreamtest.Peer{"legacy": upstreamtest.NewPeer(t), "modern": upstreamtest.NewModernPeer(t)} {
		home := inHome(t)
		peer.Prompts("a")
		peer.Result(wire.PromptsGet, `{"messages":[{"role":"user","content":{"type":"text","text":"Text."}}]}`)
		server := httptest.NewServer(peer)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan int, 1)
		go func() {
			args := []string{"sync", "--watch", "--snapshot", "--to", "claude", "--url", server.URL}
			ended <- run(ctx, args, streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard})
		}()
		holds := func(want ...string) {
			t.Helper()
			upstreamtest.Eventually(t, era+": the folder holds "+strings.Join(want, " "), func() bool {
				return slices.Equal(slices.Sorted(maps.Keys(syncedFiles(t, home))), want)
			})
		}
		holds(".claude/commands/a.md")
		peer.Prompts("b")
		peer.Changed()
		holds(".claude/commands/b.md")
		peer.Prompts("c")
		peer.Break() // nothing says that the list has changed, but the next connection begins with it
		holds(".claude/commands/c.md")
		cancel()
		if code := <-ended; code != exitFailed {
			t.Errorf("%s: exit code %d", era, code)
		}
		server.CloseClientConnections()
		server.Close()
	}
}

// A server may offer no stream of changes.
func TestSync_WatchEndsWhereNothingIsAnnounced(t *testing.T) {
	home := inHome(t)
	peer := upstreamtest.NewModernPeer(t)
	peer.Prompts("a")
	peer.Result(wire.PromptsGet, `{"messages":[]}`)
	peer.Handle(wire.Listen, nil)
	server := httptest.NewServer(peer)
	defer server.Close()
	wantFiles(t, syncClaude(t, home, server.URL, 1, "run the command without --watch", "--watch", "--snapshot"), "a.md")
}

// The table of clients names targets that exist, all of them.
func TestSync_WritesForTheClientsOfTheTable(t *testing.T) {
	var known []string
	for _, c := range clients.All() {
		if c.Sync != "" && !slices.Contains(known, c.Sync) {
			known = append(known, c.Sync)
		}
	}
	slices.Sort(known)
	if want := slices.Sorted(slices.Values(syncdir.Names())); !slices.Equal(known, want) {
		t.Errorf("the clients' targets are %q, want %q", known, want)
	}
}

func TestSync_MessagesBecomeOneText(t *testing.T) {
	home := inHome(t)
	peer := upstreamtest.NewModernPeer(t)
	peer.Prompts("a")
	peer.Result(wire.PromptsGet, `{"messages":[{"role":"user","content":{"type":"text","text":"Ask."}},`+
		`{"role":"assistant","content":{"type":"image","data":"UE5H","mimeType":"image/png"}}]}`)
	server := httptest.NewServer(peer)
	defer server.Close()
	wantFiles(t, syncClaude(t, home, server.URL, 0, "1 added", "--snapshot"), "a.md")
	if file := syncedFiles(t, home)[".claude/commands/a.md"]; !strings.HasSuffix(file, "---\n## user\n\nAsk.\n\n## assistant\n\n[image (image/png) left out]") {
		t.Errorf("the file is\n%s", file)
	}
	peer.Result(wire.PromptsGet, `{"resultType":"input_required","inputRequests":{}}`)
	wantFiles(t, syncClaude(t, home, server.URL, 0, "its server asks for input", "--snapshot"))
	peer.Error(wire.PromptsGet, 400, `{"code":-32602,"message":"no such thing"}`)
	wantFiles(t, syncClaude(t, home, server.URL, 1, "1 prompt could not be got", "--snapshot"))
}

func TestSync_NeedsToKnowTheClients(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"sync --url http://127.0.0.1:1", "sync needs the clients to write for: --to claude,codex"},
		{"sync --url http://127.0.0.1:1 --to emacs", `--to "emacs": use claude`},
		{"sync --to claude", "--url URL is required"},
		{"__complete sync --to cl", "claude\n"},
		{"__complete sync --to claude,g", "claude,gemini\n"},
	} {
		out, problems, _ := runHere(t, strings.Fields(test.args)...)
		if !strings.Contains(out+problems, test.want) {
			t.Errorf("%s prints %s%s, want %q", test.args, out, problems, test.want)
		}
	}
}
