package examples_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// The examples of the page about the commands run one after another, unchanged except for the addresses.
func TestCommandReference_CommandsPrintWhatItShows(t *testing.T) {
	root := t.TempDir()
	bin := filepath.Join(root, "bin")
	proctest.Build(t, bin, "./cmd/promptweir")
	proctest.CopyExample(t, filepath.Join(root, "examples", "quickstart"), "quickstart")
	gateway := proctest.Start(t, root, filepath.Join(bin, "promptweir"), "serve", "--config", "examples/quickstart")
	admin := strings.NewReplacer("127.0.0.1:8081", host(t, gateway.Attr(t, "admin")))
	commands := proctest.Commands(t, "../cmd/promptweir/README.md")
	for _, c := range commands {
		c.Prints = admin.Replace(c.Prints)
		c.Runs(t, root, admin.Replace(c.Line))
	}
	if len(commands) == 0 {
		t.Error("the page has no commands")
	}
}

// The steps run as in a pull request, in a clone: it exposes a prompt that the lock file does not approve.
func TestPullRequests_StepsSayWhatAChangeExposes(t *testing.T) {
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct{ Uses, Run string }
		}
	}
	if err := yaml.Unmarshal([]byte(text(t, "pull-requests/promptweir.yaml")), &workflow); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	proctest.Build(t, filepath.Join(root, "bin"), "./cmd/promptweir")
	summary := filepath.Join(root, "summary.md")
	run := func(folder, script string) (string, error) {
		step := exec.CommandContext(t.Context(), "bash", "-e", "-o", "pipefail", "-c", script)
		step.Dir = filepath.Join(root, folder)
		step.Env = append(os.Environ(), "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"), "GITHUB_BASE_REF=main",
			"GITHUB_STEP_SUMMARY="+summary, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		out, err := step.CombinedOutput()
		return string(out), err
	}
	if out, err := run("", `git init -q -b main origin && mkdir -p origin/promptweir && cd origin/promptweir
		printf 'team "docs" {\n  upstream "notes" { files = ["*.md"] }\n}\n' >docs.hcl
		echo Hello >hello.md
		promptweir lock --config . --live
		git add . && git commit -q -m main && cd ../.. && git clone -q origin clone
		echo Goodbye >clone/promptweir/bye.md`); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ran := map[string]string{}
	for _, step := range workflow.Jobs["review"].Steps {
		if step.Run == "" || strings.HasPrefix(step.Run, "go install ") {
			continue
		}
		out, err := run("clone", step.Run)
		command := strings.Fields(step.Run)[1]
		if ran[command] = out; (err != nil) != (command == "lock") {
			t.Errorf("%s: %v\n%s", step.Run, err, out)
		}
	}
	said, err := os.ReadFile(summary)
	if err != nil || !strings.Contains(string(said), "+ notes.bye is exposed to everybody") {
		t.Errorf("the summary of the run has %v:\n%s", err, said)
	}
	if len(ran) != 3 || !strings.Contains(ran["lock"], "+ notes.bye of upstream notes is not approved") {
		t.Errorf("the steps print %q", ran)
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
