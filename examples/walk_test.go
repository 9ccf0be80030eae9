package examples_test

import (
	"bytes"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// The walk's commands run one after another, unchanged except for the addresses, and print what the text shows.
func TestWalk_CommandsPrintWhatItShows(t *testing.T) {
	commands := commandsOf(t, "teams/README.md")
	if len(commands) == 0 || commands[0].line != "make run-teams" {
		t.Fatalf("the walk has %d commands, want make run-teams and those after it", len(commands))
	}
	root := t.TempDir()
	folder := filepath.Join(root, "examples", "teams")
	proctest.Build(t, filepath.Join(root, "bin"), "./cmd/promptweir", "./examples/servers/...")
	handbook := proctest.Start(t, root, filepath.Join(root, "bin", "handbook"), "-listen", "127.0.0.1:0", "-change-every", "0")
	server := host(t, handbook.Attr(t, "endpoint"))
	proctest.CopyExample(t, folder, "teams", "127.0.0.1:9090", server)
	if err := os.CopyFS(filepath.Join(folder, "letters"), os.DirFS("teams/letters")); err != nil {
		t.Fatal(err)
	}
	gateway := proctest.Start(t, root, filepath.Join(root, "bin", "promptweir"), "serve", "--config", "examples/teams")
	addresses := strings.NewReplacer("127.0.0.1:8080", host(t, gateway.Attr(t, "endpoint")), "127.0.0.1:9090", server)

	for _, c := range commands[1:] {
		c.runs(t, root, addresses.Replace(c.line))
	}
}

func host(t *testing.T, endpoint string) string {
	t.Helper()
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// command is a command in a text and the output that the text shows. There, … stands for anything, and on a line of its own
// for any lines.
type command struct{ line, prints string }

// commandsOf returns the commands in a Markdown file's console blocks, in order.
func commandsOf(t *testing.T, file string) (commands []command) {
	t.Helper()
	for _, block := range fencesOf(t, file)["console"] {
		margin := len(block) - len(strings.TrimLeft(block, " ")) // the block may be part of a list
		for line := range strings.Lines(block) {
			line = line[min(margin, len(line)-1):]
			if typed, ok := strings.CutPrefix(line, "$ "); ok {
				commands = append(commands, command{line: strings.TrimSpace(typed)})
				continue
			}
			if len(commands) == 0 {
				t.Fatalf("%s: output without a command: %q", file, line)
			}
			commands[len(commands)-1].prints += line
		}
	}
	return commands
}

// runs asserts that the command prints what the text shows. It tries again for a while, since servers and changes take a
// moment to arrive.
func (c command) runs(t *testing.T, folder, line string) {
	t.Helper()
	want := regexp.QuoteMeta(c.prints)
	want = regexp.MustCompile(`(?m)^…\n`).ReplaceAllString(want, `(?s:.*)`)
	want = strings.ReplaceAll(want, "…", ".*")
	pattern := regexp.MustCompile(`\A` + want + `\z`)
	var got string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if got = run(t, folder, line); pattern.MatchString(got) {
			return
		}
	}
	t.Fatalf("%s (-want +got):\n%s", c.line, cmp.Diff(c.prints, got))
}

// run returns what a shell command prints on both streams, as a terminal shows them. Some commands of the walk fail on purpose.
func run(t *testing.T, folder, line string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir = folder
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()
	return out.String()
}
