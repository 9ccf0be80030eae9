package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/system"
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

func TestTeam_CountsTheGapsOfPrompts(t *testing.T) {
	tr := newTree(t, "docs.hcl", team("p/*.md"), "p/a.md", oneArgument+strings.Repeat("{{v}}", maxGaps), "p/b.md", oneArgument+strings.Repeat("{{v}}", maxGaps+1))
	f := newFolder(tr.upstream())
	list := f.read(t)
	checkProblems(t, tr.root, list.Problems, problem{Broken, tr.path("p/b.md"), "It has more than 10000 placeholders"})
	if len(list.Prompts) != 1 || f.held.total < 32*maxGaps {
		t.Errorf("%d prompts that hold %d bytes, want one with 32 bytes for each gap", len(list.Prompts), f.held.total)
	}
}

func TestTeam_KeepsWhatItHadWhereItsFilesHoldTooMuch(t *testing.T) {
	tr := newTree(t, "docs.hcl", blocks(2, `"p/*.md"`), "gateway.hcl", "gateway { max_files = 1048576 }\n", "p/a.md", "A")
	f := newFolder(tr.upstreams()...)
	tr.expect(f, map[string]string{"a": "A"})
	for i := range 20 { // 100 KB, and ten times as much in memory
		tr.write(fmt.Sprintf("p/%02d.md", i), oneArgument+strings.Repeat("{{v}}", 1000))
	}
	tr.write("p/a.md", "B")
	for round := range 2 { // of a thousand gaps each, 20 prompts hold 0.7 MB; in two lists each definition counts twice
		for i := 20; i < 40; i++ {
			tr.write(fmt.Sprintf("p/%02d.md", i), oneArgument+strings.Repeat("{{v}}", 1000))
		}
		for i, result := range f.pass() {
			p, ok := errors.AsType[Problem](result.Err)
			if !ok || !strings.Contains(p.Detail, "raise max_files in the gateway block") || p.Line != 2+i || len(result.List.Prompts) != 1 {
				t.Errorf("round %d, upstream %d: %d prompts and %v, want what it had and the remedy at its block", round, i, len(result.List.Prompts), result.Err)
			}
			if got := texts(t, result.List)["a"]; got != text("A") {
				t.Errorf("upstream %d serves %s, want what it had", i, got)
			}
		}
		if f.held.total > 1<<20 {
			t.Errorf("the team holds %d bytes, more than it may", f.held.total)
		}
	}
	for i := range 40 {
		tr.remove(fmt.Sprintf("p/%02d.md", i))
	}
	tr.expect(f, map[string]string{"a": "B"})
}

func TestTeam_HoldsFilesOnceForAllBlocks(t *testing.T) {
	tr := newTree(t, "docs.hcl", blocks(60, `"p/*.md"`))
	for i := range 8 { // images of two contents
		tr.write(fmt.Sprintf("p/%d.png", i), strings.Repeat(string(rune('A'+i%2)), 1<<20))
		tr.write(fmt.Sprintf("p/%d.md", i), fmt.Sprintf("![](%d.png)", i))
	}
	f := newFolder(tr.upstreams()...)
	results := f.pass()
	for _, result := range results {
		if result.Err != nil || len(result.List.Prompts) != 8 {
			t.Fatalf("%d prompts and %v, want 8", len(result.List.Prompts), result.Err)
		}
	}
	if one, other := results[0].List.Prompt("0"), results[59].List.Prompt("2"); one.media[0] != other.media[0] {
		t.Error("the same image is held twice")
	}
	if once := 2 * (1 << 20) * 4 / 3; f.held.total > once+1<<20 {
		t.Errorf("%d bytes held, want those of two images", f.held.total)
	}
	if f.cost.Folders != 2 || f.cost.Files != 16 || f.cost.Passes != 1 {
		t.Errorf("cost %+v, want one walk through two folders and 16 files", f.cost)
	}
	f.settle()
	before := f.cost
	f.pass()
	if f.cost.Files != before.Files {
		t.Errorf("%d files read though nothing has changed", f.cost.Files-before.Files)
	}
}

func TestTeam_DoesNotKeepWholeFilesForAPartOfThem(t *testing.T) {
	content := "${input:name} #file:x\n" + strings.Repeat("x", 1000)
	prompt, problems := disk{"a.prompt.md": content}.read("a.prompt.md")
	if len(problems) != 1 || problems[0].Source == "" {
		t.Fatalf("problems %v", problems)
	}
	e := &entry{prompt: prompt, problems: problems}
	if held := e.measure(); held < len(content) || held > 3*len(content)+fileOverhead {
		t.Errorf("%d bytes held of %d", held, len(content))
	}
}

func TestTeam_ReadsAPartialOnceAndIncludesItAThousandTimes(t *testing.T) {
	hollow := "---\n#" + strings.Repeat("x", maxFrontMatter-10) + "\n---\n" // without text
	tr := newTree(t, "docs.hcl", team("p/*.md"), "p/_part.md", hollow,
		"p/a.md", "x"+strings.Repeat("{{> _part.md}}", maxInclusions), "p/b.md", "x"+strings.Repeat("{{> _part.md}}", maxInclusions+1),
		"p/c.md", "x"+strings.Repeat("{{> _nested.md}}", 100), "p/_nested.md", strings.Repeat("{{> _part.md}}", 100))
	f := newFolder(tr.upstream())
	list := f.read(t)
	checkProblems(t, tr.root, list.Problems,
		problem{Broken, tr.path("p/_nested.md:1"), "partials more than 1000 times"}, problem{Broken, tr.path("p/b.md:1"), "partials more than 1000 times"})
	if f.cost.Files != 5 || f.cost.Scanned > 10*f.cost.Bytes {
		t.Errorf("%d files read and %d bytes examined, want each of the 5 files once", f.cost.Files, f.cost.Scanned)
	}
}

func TestTeam_LooksForTheEndOfFrontMatterWithinItsBound(t *testing.T) {
	_, problems := disk{"a.md": "---\n" + strings.Repeat("#\n", maxFrontMatter) + "---\nx"}.read("a.md")
	checkProblems(t, "a.md", problems, problem{Broken, "a.md:1", "The front matter has no end within 65536 bytes"})
}

func TestTeam_BoundsWhatAllPromptsExamine(t *testing.T) {
	// Blank text is examined with each prompt, and held by none.
	tr := newTree(t, "docs.hcl", team("p/*.md"), "p/_blank.md", strings.Repeat(" ", 32<<10))
	for i := range 100 {
		tr.write(fmt.Sprintf("p/%04d.md", i), strings.Repeat("{{> _blank.md}}", 60))
	}
	f := newFolder(tr.upstream())
	_, err := f.Refresh()
	if err == nil || !strings.Contains(err.Error(), "include less by partials") || f.cost.Scanned > maxScans*(f.cost.Bytes+101*leastFile) {
		t.Errorf("%d bytes of %d examined: %v", f.cost.Scanned, f.cost.Bytes, err)
	}
}

func TestTeam_EndsAPassWithItsContext(t *testing.T) {
	tr := newTree(t, "docs.hcl", team("p/**/*.md"), "p/a.md", "x"+strings.Repeat("{{> _part.md}}", 4), "p/_part.md", strings.Repeat("x", 1<<20-1))
	f := newFolder(tr.upstream())
	ended := errors.New("ended")
	var steps int
	for most := 0; ; most++ {
		left := most
		results, _, err := f.Team.Refresh(t.Context(), f.upstreams, func(context.Context) error {
			if left--; left < 0 {
				return ended
			}
			return nil
		})
		if err == nil {
			steps = most
			break
		}
		if !errors.Is(err, ended) || results != nil || f.entries != nil {
			t.Fatalf("after %d steps: %v and %v", most, results, err)
		}
	}
	if least := 9 + 4; steps < least { // what it looks at and reads, and each megabyte of text
		t.Errorf("the pass can end at %d steps, want %d at least", steps, least)
	}
}

func TestTeam_ReadsALinkedFolderOnce(t *testing.T) {
	const n, names = 6, 8
	tr := newTree(t, "docs.hcl", blocks(3, `"p/**/*.md"`))
	for i := range n {
		tr.write(fmt.Sprintf("p/%d/%d.md", i, i), "x")
		for j := range n {
			tr.link(fmt.Sprintf("../%d", j), fmt.Sprintf("p/%d/to%d", i, j))
		}
	}
	f := newFolder(tr.upstreams()...)
	list := f.read(t)
	if f.cost.Folders != n+2 {
		t.Errorf("%d folders read, want each of the %d once", f.cost.Folders, n+2)
	}
	if want := n + n*n + n; f.cost.Stats > 2*(n+2)+2*want {
		t.Errorf("%d files looked at, want each once", f.cost.Stats)
	}
	if found := f.blocks["u00"].found; len(found) != n*names {
		t.Errorf("%d names, want %d of each file: %v", len(found), names, found)
	}
	// The names without links are among them, and first.
	for i := range n {
		if p := list.Prompt(strconv.Itoa(i)); p == nil || !strings.HasPrefix(p.Path, "p/") {
			t.Errorf("prompt %d is %+v", i, p)
		}
	}
}

func TestTeam_ReplacesMuchInParts(t *testing.T) {
	tr := newTree(t, "docs.hcl", team("p/*.md"), "gateway.hcl", "gateway { max_files = 1048576 }\n")
	write := func(text string) {
		for i := range 9 {
			tr.write(fmt.Sprintf("p/%d.md", i), strings.Repeat(text, 100_000))
		}
	}
	write("a")
	f := newFolder(tr.upstream())
	f.pass()
	write("b")
	results, done, err := f.Team.Refresh(t.Context(), f.upstreams, context.Context.Err)
	if err != nil || done || len(results[0].List.Prompts) != 9 {
		t.Errorf("one pass is done: %t, %v", done, err)
	}
	for _, got := range texts(t, f.pass()[0].List) {
		if strings.Contains(got, "a") && !strings.Contains(got, "bbb") {
			t.Error("an old text is served")
		}
	}
}

func TestTeam_SeesAChangeWithTheSameSizeAndTime(t *testing.T) {
	if _, changed := system.Identify(statOf(t, t.TempDir()), ""); changed == 0 {
		t.Skip("this system does not say when it changed a file")
	}
	tr := newTree(t, "docs.hcl", team("p/*.md"), "p/a.md", "1")
	past := time.Now().Add(-time.Hour)
	tr.check(os.Chtimes(tr.path("p/a.md"), past, past))
	f := newFolder(tr.upstream())
	tr.expect(f, map[string]string{"a": "1"})
	f.settle()
	tr.check(os.WriteFile(tr.path("p/a.md"), []byte("2"), 0o600))
	tr.check(os.Chtimes(tr.path("p/a.md"), past, past))
	tr.expect(f, map[string]string{"a": "2"})
}

// A clock that is ahead, or a program that sets dates, must not have a team's files read in every
// pass.
func TestTeam_ReadsAFileDatedInTheFutureOnce(t *testing.T) {
	if _, changed := system.Identify(statOf(t, t.TempDir()), ""); changed == 0 {
		t.Skip("this system does not say when it changed a file")
	}
	tr := newTree(t, "docs.hcl", team("p/*.md"), "p/a.md", "1")
	future := time.Now().Add(time.Hour)
	tr.check(os.Chtimes(tr.path("p/a.md"), future, future))
	f := newFolder(tr.upstream())
	tr.expect(f, map[string]string{"a": "1"})
	for before, begun := -1, time.Now(); before != f.cost.Files; f.pass() { // until it is old enough by the system's own time
		if before = f.cost.Files; time.Since(begun) > 20*time.Second {
			t.Fatal("it is read in every pass")
		}
	}
	tr.write("p/a.md", "2")
	tr.expect(f, map[string]string{"a": "2"})
}

// Eight long names for each file would be gigabytes, which no prompt holds and only the walk does.
func TestTeam_BoundsTheNamesOfFiles(t *testing.T) {
	const folder = 200 // bytes in its name
	tr := newTree(t, "docs.hcl", blocks(2, `"p/**/*.md"`), "gateway.hcl", "gateway { max_files = 65536 }\n", "p/a.md", "A")
	f := newFolder(tr.upstreams()...)
	tr.expect(f, map[string]string{"a": "A"})
	long := "p/" + strings.Repeat("x", folder)
	for i := range 20 {
		tr.write(fmt.Sprintf("%s/%d.md", long, i), "---\nbroken: [\n---\n")
	}
	for i := range maxNames - 1 {
		tr.link(strings.Repeat("x", folder), fmt.Sprintf("p/%d%s", i, strings.Repeat("y", folder)))
	}
	for i, result := range f.pass() {
		if result.Err == nil || !strings.Contains(result.Err.Error(), "narrow the patterns, or use fewer links") || len(result.List.Prompts) != 1 {
			t.Errorf("upstream %d: %d prompts and %v, want what it had and the remedy", i, len(result.List.Prompts), result.Err)
		}
	}
}

func TestTeam_BoundsTheMessagesOfPrompts(t *testing.T) {
	tr := newTree(t, "docs.hcl", team("p/*.md"), "p/a.md", strings.Repeat("![](i.png)\n", maxMessages), "p/i.png", "",
		"p/b.md", strings.Repeat("![](i.png)\n", maxMessages+2), "p/c.md", "{{> _part.md}}\n{{> _part.md}}", "p/_part.md", strings.Repeat("## user\nx\n", maxMessages))
	list := newFolder(tr.upstream()).read(t)
	checkProblems(t, tr.root, list.Problems,
		problem{Broken, tr.path("p/b.md"), "It has more than 10000 messages"}, problem{Broken, tr.path("p/c.md"), "It has more than 10000 messages"})
	if list.Prompt("a") == nil {
		t.Error("a prompt of 10 000 messages is not served")
	}
}

// What a prompt is made of is looked at in each pass, and may be as much as the account holds.
func TestTeam_StepsBeforeEachFileThatAPromptNeeds(t *testing.T) {
	const n = 100
	tr := newTree(t, "docs.hcl", team("p/*.md"), "p/a.md", "x")
	var text strings.Builder
	for i := range n {
		tr.write(fmt.Sprintf("parts/%d.md", i), "")
		fmt.Fprintf(&text, "x{{> ../parts/%d.md}}\n", i)
	}
	tr.write("p/a.md", text.String())
	f := newFolder(tr.upstream())
	f.settle()
	steps := 0
	if _, _, err := f.Team.Refresh(t.Context(), f.upstreams, func(context.Context) error { steps++; return nil }); err != nil || steps < n {
		t.Errorf("%d steps in a look at %d files (%v), want one for each", steps, n, err)
	}
}

// The folders of patterns are looked at one by one, with the links on the way to each.
func TestTeam_StepsBeforeTheFolderOfEachPattern(t *testing.T) {
	const n = 50
	patterns := make([]string, n)
	tr := newTree(t, "p/a.md", "x")
	for i := range n {
		patterns[i] = fmt.Sprintf("%d/*.md", i)
		tr.link("p", strconv.Itoa(i))
	}
	tr.write("docs.hcl", team(patterns...))
	f, steps := newFolder(tr.upstream()), 0
	_, _, err := f.Team.Refresh(t.Context(), f.upstreams, func(context.Context) error { steps++; return nil })
	if err != nil || steps < 2*n { // as many while it walks
		t.Errorf("%d steps for %d patterns (%v), want two for each", steps, n, err)
	}
}

func TestTeam_DoesNotWaitForAPipeInThePlaceOfAFolder(t *testing.T) {
	tr := newTree(t, "docs.hcl", team("p/*.md"))
	tr.check(exec.CommandContext(t.Context(), "mkfifo", tr.path("p")).Run())
	f := newFolder(tr.upstream())
	w := newWalk(f.upstreams[0].Files, f.present(f.upstreams), func() error { return nil }, &f.cost)
	if children, err := w.children(visit{path: "p", id: stampOf(tr.path("p")).id}); err == nil {
		t.Errorf("the pipe is a folder with %d files", len(children))
	}
}

func TestTeam_CountsTheProblemsOfEachList(t *testing.T) {
	const lists, doubts = 50, maxProblems
	tr := newTree(t, "docs.hcl", blocks(lists, `"p/*.md"`), "p/a.md", strings.Repeat("{{x}}\n", doubts))
	f := newFolder(tr.upstreams()...)
	if list, err := f.Refresh(); err != nil || len(list.Problems) != doubts || f.held.total < lists*doubts*80 {
		t.Errorf("%d bytes held for %d lists of %d problems each (%v)", f.held.total, lists, len(list.Problems), err)
	}
}

func TestTeam_ClipsNamesInProblemsOfAList(t *testing.T) {
	name := strings.Repeat("n", maxFrontMatter-100)
	tr := newTree(t, "docs.hcl", team("p/*.md"), "p/a.md", "---\nname: "+name+"\n---\nA", "p/b.md", "---\nname: "+name+"\n---\nB")
	list := newFolder(tr.upstream()).read(t)
	if len(list.Problems) != 1 || len(list.Problems[0].Detail) > maxDetail {
		t.Errorf("%d problems, the first of %d bytes", len(list.Problems), len(list.Problems[0].Detail))
	}
}

func statOf(t *testing.T, path string) os.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// settle reads files until they are old enough for every later change to show.
func (f *folder) settle() {
	for isSettled := false; !isSettled; {
		f.pass()
		isSettled = true
		for _, e := range f.entries {
			isSettled = isSettled && !slices.ContainsFunc(e.inputs, func(in input) bool { return in.unsettled })
		}
		for _, b := range f.blocks {
			for _, s := range b.skills {
				isSettled = isSettled && !slices.ContainsFunc(s.found, func(in skillFile) bool { return in.unsettled })
			}
		}
	}
}

func TestSentence_BeginsWithAWholeCharacter(t *testing.T) {
	for clause, want := range map[string]string{
		"é is a letter.": "É is a letter.", `"é" is quoted`: `"é" is quoted.`,
	} {
		if got := sentence(clause); got != want {
			t.Errorf("sentence(%q) = %q, want %q", clause, got, want)
		}
	}
}
