package files

import (
	"strings"
	"testing"

	"github.com/promptweir/promptweir/upstream/wire"
)

// FuzzFile reads files of each format, and gets their prompts. Nothing panics, and a text is at most
// maxGrowth times as large as its files.
func FuzzFile(f *testing.F) {
	for _, seed := range []struct {
		front, more, text string
		times             uint16
	}{
		{"arguments: [{name: v, values: [a, b]}]", "", "{{v}}{{{{v}} \\{{ {{", 1000},
		{"_meta: {a: [&x [1, 2], *x]}\nicons: [{src: https://example.com}]", "", "x $1", 1},
		{"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b,*b]", "", "x", 1},
		{"arguments:", "\n- {name: a, schema: {type: string}}", "## user\n![](a.png)\n## assistant\n", 20},
		{"_meta: ", "[", "x", 20_000},
		{"", "- ", "$1 $ARGUMENTS @a/b !`x` ", 2500},
		{"", "", "$NAME {{args}} !{x} @{y} = [", 900},
		{"", "", "$1 $ARGUMENTS ${input:a:b} #file:x !`ls` [a](b)\n", 1300},
		{"", "", "{{> b.md}}", 2000},
	} {
		f.Add(seed.front, seed.more, seed.text, seed.times)
	}
	f.Fuzz(func(t *testing.T, front, more, text string, times uint16) {
		if (len(more)+len(text))*int(times) > 1<<17 {
			return // so that many files are tried
		}
		content := strings.Repeat(text, int(times))
		markdown := "---\n" + front + strings.Repeat(more, int(times)) + "\n---\n" + content
		for file, content := range map[string]string{
			"a.md": markdown, "a.prompt.md": markdown, "a/SKILL.md": markdown, ".claude/commands/a.md": markdown,
			".opencode/command/a.md": markdown, ".gemini/commands/a.toml": "prompt = '''" + content + "'''",
		} {
			all := disk{file: content, "a.png": "PNG", "b.md": strings.Repeat("{{> c.md}}", 1000), "c.md": "x"}
			prompt, _ := all.read(file)
			if prompt == nil {
				continue
			}
			result, err := prompt.Render(wire.Object{})
			if size := max(len(content), leastFile) + 1000*len("{{> c.md}}") + leastFile; err == nil && len(result) > 2*maxGrowth*size {
				t.Errorf("%s: %d bytes of a file of %d", file, len(result), len(content))
			}
		}
	})
}
