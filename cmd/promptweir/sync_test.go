package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
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

// syncTexts are texts of prompts with the arguments a and b, and the clients whose format cannot express them.
var syncTexts = map[string]string{ //nolint:gochecknoglobals // a constant table
	"Plain.":                              "",
	"One {{a}}, twice {{a}}.":             "",
	"Two {{a}} of {{b}}s; {{b}}[0]":       "claude", // it reads [0] as an index
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
	"!{{a}}`touch ran`":                   "claude", // a missing argument would complete it
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
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // for example while a file is renamed
		t.Fatal(err)
	}
	return files
}

// The folders contain the prompts that the format can express. A text that is read back from a file, with the
// name of each argument in brackets as its value, is the gateway's text.
func TestSync_WritesTextsThatReadBack(t *testing.T) {
	home := inHome(t)
	g := gatewaytest.ServeReloadable(t, `team "eng" {}`, gateway.Options{})
	var want []string
	for i, text := range slices.Sorted(maps.Keys(syncTexts)) {
		name := fmt.Sprintf("p%d", i)
		putFile(t, filepath.Dir(g.Path), "p/"+name+".md", "---\narguments: [{name: a}, {name: b, required: true}]\n---\n"+text)
		for client, target := range syncTargets {
			if !strings.Contains(syncTexts[text], client) {
				want = append(want, target[0]+"/book."+name+target[1])
			}
		}
	}
	g.MustReload("team \"eng\" {\n  upstream \"book\" { files = [\"p/*.md\"] }\n}\n")
	g.AwaitUpstreams()
	if out, problems, code := runHere(t, "sync", "--to", "claude,codex,gemini,cursor,vscode", "--url", g.URL); code != 0 {
		t.Fatal(out, problems)
	}
	files := syncedFiles(t, home)
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(maps.Keys(files))); diff != "" {
		t.Fatalf("files (-want +got):\n%s", diff)
	}
	var upstreams strings.Builder
	for client, target := range syncTargets {
		fmt.Fprintf(&upstreams, "  upstream %q { files = [%q] }\n", client, target[0]+"/**/*"+filepath.Ext(target[1]))
	}
	putFile(t, home, "synced.hcl", "team \"t\" {\n"+upstreams.String()+"}\n")
	cfg, diags := config.Load(filepath.Join(home, "synced.hcl"), config.Options{})
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	synced := gatewaytest.StartConfig(t, cfg, gateway.Options{})
	synced.AwaitUpstreams()
	client, original, read := synced.Modern(""), g.Modern(""), map[string]int{}
	for _, shown := range client.List() {
		target, name, _ := strings.Cut(shown, ".")
		name = strings.Replace(name, ":", ".", 1)
		arguments := `,"arguments":{"a":"⟨a⟩","b":"⟨b⟩"}`
		want := promptText(original, name, arguments)
		if !strings.Contains(want, "⟨") { // otherwise they would follow the text
			arguments = ""
		}
		got := promptText(client, shown, arguments)
		if target == "codex" { // its skills have no placeholders, unlike the ones that our reader reads
			_, got, _ = strings.Cut(files[syncTargets[target][0]+"/"+name+syncTargets[target][1]], "\n---\n")
		}
		upstreamtest.Equal(t, want, strings.TrimSpace(got), "%s", shown)
		read[target]++
	}
	upstreamtest.Equal(t, len(syncTargets), len(read), "targets whose files were read: %v", read)
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

// sync updates the files of Claude Code from a server, and returns their names.
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
	upstreamtest.Equal(t, want, got, "files")
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
}

// A broken file affects only its own prompt: sync removes other prompts, and keeps the copy of this one even if the gateway has
// never had a good version of the file.
func TestSync_KeepsOnlyTheCopiesOfBrokenFiles(t *testing.T) {
	home := inHome(t)
	auth := "auth {\n" + gatewaytest.Token("ann") + "}\n"
	g := gatewaytest.ServeReloadable(t, auth+"team \"eng\" {}", gateway.Options{})
	const broken = "---\nname: [x]\n---\nC"
	for _, name := range []string{"a", "b", "c", "d"} {
		putFile(t, filepath.Dir(g.Path), "p/"+name+".md", name)
	}
	reload := func(hidden string) {
		t.Helper()
		g.MustReload(fmt.Sprintf(`%steam "eng" {
  members = ["user:ann"]
  upstream "book" { files = ["p/*.md"] }
  hide "them" { prompts = [%s] }
}`, auth, hidden))
		g.AwaitUpstreams()
	}
	reload(`"book.b"`)
	wantFiles(t, syncClaude(t, home, g.URL, 0, "3 added", "--token", "ann"), "book.a.md", "book.c.md", "book.d.md")
	for _, name := range []string{"b", "c"} {
		putFile(t, filepath.Dir(g.Path), "p/"+name+".md", broken)
	}
	g.MustReload(auth + "team \"eng\" {}") // so that the gateway forgets the files
	reload(`"book.b", "book.a"`)
	const want = "book has broken files"
	eventually(t, "list names the file of a visible prompt", func() bool {
		_, problems, _ := runHere(t, "list", "--url", g.URL, "--token", "ann")
		return strings.Contains(problems, want) && strings.Contains(problems, ": p/c.md:2; ") && !strings.Contains(problems, "p/b.md")
	})
	wantFiles(t, syncClaude(t, home, g.URL, 0, "! claude book.c: its file has an error: p/c.md:2", "--token", "ann"), "book.c.md", "book.d.md")
	putFile(t, filepath.Dir(g.Path), "p/d.md", broken)
	eventually(t, "list names both files", func() bool {
		_, problems, _ := runHere(t, "list", "--url", g.URL, "--token", "ann")
		return strings.Contains(problems, ": p/c.md:2, p/d.md:2; ")
	})
	wantFiles(t, syncClaude(t, home, g.URL, 0, "0 removed, 0 kept, 1 without a file", "--token", "ann"), "book.c.md", "book.d.md")
}

// The texts of all prompts may be larger than the memory, so each is written before the next one is requested.
func TestSync_HoldsOneTextAtATime(t *testing.T) {
	home, peer := inHome(t), upstreamtest.NewPeer(t)
	peer.Prompts("a", "b")
	peer.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
		name, _ := r.Params.Text("name")
		if _, err := os.Stat(filepath.Join(home, ".claude", "commands", "a.md")); name == "b" && err != nil {
			t.Errorf("the second text is requested before the first one is written: %v", err)
		}
		r.Result(w, `{"messages":[{"role":"user","content":{"type":"text","text":"x"}}]}`)
	})
	wantFiles(t, syncClaude(t, home, upstreamtest.Serve(t, peer).URL, 0, "2 added", "--snapshot"), "a.md", "b.md")
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
	upstreamtest.Equal(t, before, syncedFiles(t, home), "files after a run without changes")
	// Without the flag, snapshots are removed.
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
		peer.Break() // the stream does not report the change, but the next connection lists again
		holds(".claude/commands/c.md")
		cancel()
		upstreamtest.Equal(t, exitFailed, <-ended, "%s: exit code", era)
		server.CloseClientConnections()
		server.Close()
	}
}

// A server may offer no stream of notifications.
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

// The table of clients names exactly the existing targets.
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

// No client's format has defaults, so a default is text behind the place of its argument.
func TestSync_DefaultsBecomeText(t *testing.T) {
	home := inHome(t)
	g := gatewaytest.ServeReloadable(t, `team "eng" {}`, gateway.Options{})
	for name, content := range map[string]string{
		"one":  "---\narguments: [{name: tone, default: $kind}]\n---\nBe {{tone}}, {{ tone }}.",
		"some": "---\narguments: [{name: code, required: true}, {name: tone, default: kind}, {name: topic}, {name: to, default: kin}]\n---\n{{code}}{{tone}}{{topic}}{{to}}.",
		"none": "---\narguments: [{name: topic}]\n---\nAbout {{topic}}.",
	} {
		putFile(t, filepath.Dir(g.Path), "p/"+name+".md", content)
	}
	g.MustReload("team \"eng\" {\n  upstream \"book\" { files = [\"p/*.md\"] }\n  prompt \"book.none\" { defaults = { topic = \"us\" } }\n}")
	g.AwaitUpstreams()
	if out, problems, code := runHere(t, "sync", "--to", "claude,codex,gemini,cursor,vscode", "--url", g.URL); code != 0 {
		t.Fatal(out, problems)
	}
	files := syncedFiles(t, home)
	for path, text := range map[string]string{
		".claude/commands/book.one.md":                 "Be $ARGUMENTS (default: $kind), $ARGUMENTS (default: $kind).",
		".claude/commands/book.some.md":                "$code$tone (default: kind)$topic$to (default: kin).",
		".claude/commands/book.none.md":                "About $ARGUMENTS (default: us).",
		".codex/skills/book.some/SKILL.md":             "⟨code⟩⟨tone⟩ (default: kind)⟨topic⟩⟨to⟩ (default: kin).",
		".gemini/commands/book.one.toml":               "Be {{args}} (default: $kind), {{args}} (default: $kind).\"\"\"\n",
		".cursor/commands/book.one.md":                 "Be ⟨tone⟩ (default: $kind), ⟨tone⟩ (default: $kind).",
		".config/Code/User/prompts/book.one.prompt.md": "Be ${input:tone} (default: $kind), ${input:tone} (default: $kind).",
	} {
		if !strings.HasSuffix(files[path], "\n"+text) {
			t.Errorf("%s does not end with %q:\n%s", path, text, files[path])
		}
	}
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
