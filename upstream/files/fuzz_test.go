package files

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
)

// maxFuzzed bounds a file, in bytes, so that many are tried.
const maxFuzzed = 1 << 16

// checkBudget parses a file and checks the memory of its prompt: a multiple of its files.
func checkBudget(t *testing.T, files disk, file string) {
	t.Helper()
	prompt, problems := parse(entryKey{file, true, signAt(file)}, files, func(file string) string { return file })
	held, size := 0, 0
	for _, p := range problems {
		held += len(p.Source) + len(p.Detail)
	}
	if prompt != nil {
		held += prompt.held()
	}
	for _, content := range files {
		size += max(len(content), leastFile)
	}
	if most := min(64*size, 64<<20); held > most {
		t.Errorf("%d bytes held of %d, want %d at most", held, size, most)
	}
}

func FuzzFrontMatter(f *testing.F) {
	f.Add("name: a\narguments: [{name: v, values: [a, b]}]")
	f.Add("_meta: {a: [&x [1, 2], *x]}\nicons: [{src: https://example.com}]")
	f.Add("arguments:\n" + strings.Repeat("- {name: a, schema: {type: string}}\n", 20))
	f.Fuzz(func(t *testing.T, front string) {
		for _, file := range []string{"a.md", "a.prompt.md", "a/SKILL.md", ".claude/commands/a.md"} {
			checkBudget(t, disk{file: "---\n" + front + "\n---\nx $1 {{v}}"}, file)
		}
	})
}

func FuzzTemplate(f *testing.F) {
	f.Add("{{v}}{{{{v}} \\{{ {{", uint16(1000))
	f.Add("## user\n![](a.png)\n## assistant\n", uint16(500))
	f.Add("$NAME {{args}} !{x} @{y} = [", uint16(900))
	f.Add("$1 $ARGUMENTS ${input:a:b} #file:x !`ls` [a](b)\n", uint16(2000))
	f.Fuzz(func(t *testing.T, text string, times uint16) {
		if len(text)*int(times) > maxFuzzed {
			return
		}
		for _, file := range []string{"a.md", "a.prompt.md", "a/SKILL.md", ".claude/commands/a.md", ".codex/prompts/a.md", ".opencode/command/a.md"} {
			checkBudget(t, disk{file: "---\narguments: [{name: v}]\n---\n" + strings.Repeat(text, int(times)), "a.png": "PNG"}, file)
		}
		const gemini = ".gemini/commands/a.toml"
		checkBudget(t, disk{gemini: "prompt = '''" + strings.Repeat(text, int(times)) + "'''"}, gemini)
	})
}

func FuzzPartials(f *testing.F) {
	f.Add("{{> b.md}}", uint16(1000), "{{> c.md}}", uint16(10), "text {{v}}\n")
	f.Add("{{> b.md}}\n", uint16(100), "---\n---\n{{> b.md}}{{> a.md}}", uint16(1), "")
	f.Fuzz(func(t *testing.T, a string, times uint16, b string, more uint16, c string) {
		if len(a)*int(times) > maxFuzzed || len(b)*int(more) > maxFuzzed || len(c) > maxFuzzed {
			return
		}
		checkBudget(t, disk{
			"a.md": "---\narguments: [{name: v}]\n---\n" + strings.Repeat(a, int(times)), "b.md": strings.Repeat(b, int(more)), "c.md": c,
		}, "a.md")
	})
}

// FuzzFolder makes a folder of what steps say: each byte a file, a folder, a link, or a change
// after a pass.
func FuzzFolder(f *testing.F) {
	f.Add([]byte("\x00\x11\x22\x33\x44\x55\x0f"), "{{> _part.md}}", "x")
	f.Add([]byte("\x21\x31\x22\x32\x23\x33\x24\x34"), "![](i.png)", "{{> _part.md}}")
	shared := newTree(f, "docs.hcl", blocks(3, `"**/*.md"`))
	upstreams := shared.upstreams() // once, as that takes longer than all the rest
	f.Fuzz(func(t *testing.T, steps []byte, content, partial string) {
		if len(steps) > 64 {
			return
		}
		tr := &tree{t, shared.root}
		for i := range 4 {
			_ = os.RemoveAll(tr.path(strconv.Itoa(i)))
		}
		tr.write("0/1/_part.md", partial)
		tr.write("0/i.png", "PNG")
		folder, files := newFolder(upstreams...), 2
		for i, step := range steps {
			name := fmt.Sprintf("%d/%d", step>>4&3, step&3)
			switch kind := step >> 6; kind {
			case 0, 1:
				if tr.put(path.Join(name, fmt.Sprintf("%d.md", i)), content) {
					files++
				}
			case 2:
				_ = os.Symlink(fmt.Sprintf("../%d", step>>2&3), tr.path(fmt.Sprintf("%d/l%d", step>>4&3, i)))
			case 3:
				_ = os.Symlink("../..", tr.path(name+strconv.Itoa(i)))
			}
		}
		results := folder.pass()
		if folder.reads > 3*files { // and looks for a partial and an image beside each
			t.Errorf("%d files read of %d", folder.reads, files)
		}
		again := folder.pass()
		for i := range results {
			if len(again[i].List.Prompts) != len(results[i].List.Prompts) {
				t.Errorf("another pass finds %d prompts, after %d", len(again[i].List.Prompts), len(results[i].List.Prompts))
			}
		}
	})
}

// put writes a file where there is a folder, or nothing yet.
func (tr *tree) put(file, content string) bool {
	return os.MkdirAll(path.Dir(tr.path(file)), 0o700) == nil && os.WriteFile(tr.path(file), []byte(content), 0o600) == nil
}
