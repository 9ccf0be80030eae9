package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// upstreams loads the configuration in the tree and returns all upstreams.
func (tr *tree) upstreams() []config.Upstream {
	tr.t.Helper()
	cfg, diags := config.Load(tr.root, config.Options{})
	tr.check(diags.Err())
	return cfg.Upstreams()
}

// blocks is a team's file with many upstreams over the same files.
func blocks(n int, patterns string) string {
	var text strings.Builder
	text.WriteString("team \"docs\" {\n")
	for i := range n {
		fmt.Fprintf(&text, "  upstream \"u%02d\" { files = [%s] }\n", i, patterns)
	}
	return text.String() + "}\n"
}

const oneArgument = "---\narguments: [{name: v}]\n---\n"

func TestTeam_BoundsPrompts(t *testing.T) {
	image := func(n int) string { return strings.Repeat("![](i.png)\n", n) }
	part := func(n int) string { return "x" + strings.Repeat("{{> _part.md}}", n) }
	tr := newTree(t, "docs.hcl", team("p/*.md"), "p/i.png", "", "p/_part.md", "---\n#"+strings.Repeat("x", maxFrontMatter-10)+"\n---\n", "p/_talk.md", strings.Repeat("## user\nx\n", maxMessages),
		"p/front.md", "---\n"+strings.Repeat("#\n", maxFrontMatter)+"---\nx", "p/gaps.md", oneArgument+strings.Repeat("{{v}}", maxGaps), "p/gaps2.md", oneArgument+strings.Repeat("{{v}}", maxGaps+1),
		"p/_page.md", strings.Repeat("x", 2000), "p/grown2.md", strings.Repeat("{{> _page.md}}", maxInclusions), "p/images.md", image(maxMessages), "p/images2.md", image(maxMessages+2), "p/messages2.md", "{{> _talk.md}}\n{{> _talk.md}}",
		"p/parts.md", part(maxInclusions), "p/parts2.md", part(maxInclusions+1), "p/nested2.md", "x"+strings.Repeat("{{> _nested.md}}", 100), "p/_nested.md", part(100))
	f := newFolder(tr.upstream())
	list := f.read(t)
	checkProblems(t, tr.root, list.Problems,
		problem{Broken, tr.path("p/_nested.md:1"), "partials more than 1000 times"},
		problem{Broken, tr.path("p/front.md:1"), "The front matter has no end within 65536 bytes"},
		problem{Broken, tr.path("p/gaps2.md"), "It has more than 10000 placeholders"},
		problem{Broken, tr.path("p/grown2.md"), "more than 40 times as large as its files"},
		problem{Broken, tr.path("p/images2.md"), "It has more than 10000 messages"},
		problem{Broken, tr.path("p/messages2.md"), "It has more than 10000 messages"},
		problem{Broken, tr.path("p/parts2.md:1"), "partials more than 1000 times"})
	if n := len(list.Prompts); n != 3 || f.reads != 15 {
		t.Errorf("%d prompts are served, want 3; %d files read, want each of the 15 once", n, f.reads)
	}
}

func TestTeam_KeepsItsPromptsWhereItsFilesAreTooLarge(t *testing.T) {
	tr := newTree(t, "docs.hcl", blocks(2, `"p/*.md"`), "gateway.hcl", "gateway { max_files = 1048576 }\n", "p/a.md", "A")
	f := newFolder(tr.upstreams()...)
	tr.expect(f, map[string]string{"a": "A"})
	tr.write("p/a.md", "B")
	refused := func() {
		t.Helper()
		before := f.reads
		for i, result := range f.pass() {
			p, ok := errors.AsType[Problem](result.Err)
			if !ok || !strings.Contains(p.Detail, "raise max_files in the gateway block") || p.Line != 2+i || len(result.List.Prompts) != 1 {
				t.Errorf("upstream %d: %d prompts and %v, want the one before and the remedy at its block", i, len(result.List.Prompts), result.Err)
			}
			upstreamtest.Equal(t, text("A"), texts(t, result.List)["a"], "upstream %d serves", i)
		}
		if f.reads > before+1 {
			t.Errorf("%d files read before the bound is checked", f.reads-before)
		}
	}
	for i := range 3 {
		tr.write(fmt.Sprintf("p/%02d.md", i), strings.Repeat("x", 400_000))
	}
	refused()
	for i := range 3 {
		tr.remove(fmt.Sprintf("p/%02d.md", i))
	}
	// Images, which patterns do not match, count before they are read.
	tr.write("p/a.md", "![](a.png)")
	tr.write("p/a.png", strings.Repeat("x", 1<<20))
	refused()
	tr.remove("p/a.png")
	tr.write("p/a.md", "B")
	tr.expect(f, map[string]string{"a": "B"})
}

func TestTeam_ReadsEachFileOnceForAllBlocks(t *testing.T) {
	tr := newTree(t, "docs.hcl", blocks(60, `"p/*.md"`), "p/_part.md", "P", "p/i.png", "PNG")
	for i := range 8 {
		tr.write(fmt.Sprintf("p/%d.md", i), "{{> _part.md}}\n![](i.png)")
	}
	f := newFolder(tr.upstreams()...)
	results := f.pass()
	for _, result := range results {
		if result.Err != nil || len(result.List.Prompts) != 8 {
			t.Fatalf("%d prompts and %v, want 8", len(result.List.Prompts), result.Err)
		}
	}
	upstreamtest.Equal(t, 10, f.reads, "files read")
	tr.age()
	f.pass()
	before := f.reads
	f.pass()
	upstreamtest.Equal(t, before, f.reads, "files read though nothing has changed")
	tr.write("p/0.md", "{{> _part.md}}x\n![](i.png)")
	list := f.pass()[59].List
	if one, other := list.Prompt("0"), list.Prompt("1"); &one.segments[1].json[0] != &other.segments[1].json[0] {
		t.Error("the same image is held twice")
	}
}

func TestTeam_ServesEachFileOnceHoweverManyLinksLeadToIt(t *testing.T) {
	const n = 6
	tr := newTree(t, "docs.hcl", blocks(3, `"p/**/*.md"`))
	for i := range n {
		tr.write(fmt.Sprintf("p/%d/%d.md", i, i), "x")
		for j := range n {
			tr.link(fmt.Sprintf("../%d", j), fmt.Sprintf("p/%d/to%d", i, j))
		}
		tr.link(fmt.Sprintf("%d.md", i), fmt.Sprintf("p/%d/link.md", i))
	}
	f := newFolder(tr.upstreams()...)
	list := f.read(t)
	if len(list.Prompts) != n || f.reads != n {
		t.Errorf("%d prompts and %d files read, want each of the %d once", len(list.Prompts), f.reads, n)
	}
	for i := range n { // the path without links counts
		if p := list.Prompt(strconv.Itoa(i)); p == nil || p.Path != fmt.Sprintf("p/%d/%d.md", i, i) {
			t.Errorf("prompt %d is %+v", i, p)
		}
	}
}

func TestTeam_EndsAPassWithItsContext(t *testing.T) {
	tr := newTree(t, "docs.hcl", team("p/**/*.md"), "p/a.md", "x")
	f := newFolder(tr.upstream())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if results, err := f.Team.Refresh(ctx, f.upstreams); !errors.Is(err, context.Canceled) || results != nil || f.entries != nil || f.reads > 0 {
		t.Errorf("%v and %v, with %d files read", results, err, f.reads)
	}
}

// age makes all files an hour old, so that every later change shows.
func (tr *tree) age() {
	tr.t.Helper()
	past := time.Now().Add(-time.Hour)
	tr.check(filepath.WalkDir(tr.root, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(path, past, past))
	}))
}
