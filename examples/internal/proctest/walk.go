package proctest

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Fences returns the fenced blocks of a Markdown file by their languages.
func Fences(t testing.TB, file string) map[string][]string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	blocks, language, open := map[string][]string{}, "", false
	var block strings.Builder
	for line := range strings.Lines(string(content)) {
		mark, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case !isFence:
			block.WriteString(line)
		case open && mark != "":
			t.Fatalf("the block of %q is not closed before one of %q begins", language, mark)
		case open:
			blocks[language] = append(blocks[language], block.String())
			open = false
		default:
			language, open = mark, true
			block.Reset()
		}
	}
	if open {
		t.Fatalf("the block of %q is not closed", language)
	}
	return blocks
}

// Command is a command in a text and the output that the text shows. There, … stands for anything, and on a line of its own
// for any lines.
type Command struct{ Line, Prints string }

// Commands returns the commands in a Markdown file's console blocks, in order.
func Commands(t testing.TB, file string) (commands []Command) {
	t.Helper()
	for _, block := range Fences(t, file)["console"] {
		margin := len(block) - len(strings.TrimLeft(block, " ")) // the block may be part of a list
		for line := range strings.Lines(block) {
			line = line[min(margin, len(line)-1):]
			if typed, ok := strings.CutPrefix(line, "$ "); ok {
				commands = append(commands, Command{Line: strings.TrimSpace(typed)})
				continue
			}
			if len(commands) == 0 {
				t.Fatalf("%s: output without a command: %q", file, line)
			}
			commands[len(commands)-1].Prints += line
		}
	}
	return commands
}

// Runs asserts that the command prints what the text shows. It tries again for a while, since servers and changes take a
// moment to arrive.
func (c Command) Runs(t testing.TB, folder, line string) {
	t.Helper()
	want := regexp.QuoteMeta(c.Prints)
	want = regexp.MustCompile(`(?m)^…\n`).ReplaceAllString(want, `(?s:.*)`)
	want = strings.ReplaceAll(want, "…", ".*")
	pattern := regexp.MustCompile(`\A` + want + `\z`)
	var got string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if got = run(t, folder, line); pattern.MatchString(got) {
			return
		}
	}
	t.Fatalf("%s (-want +got):\n%s", c.Line, cmp.Diff(c.Prints, got))
}

// run returns what a shell command prints on both streams, as a terminal shows them. Some commands of the walk fail on purpose.
func run(t testing.TB, folder, line string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir = folder
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()
	return out.String()
}
