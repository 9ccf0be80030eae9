// Package examples_test loads every example, and runs those that need only Go as their comments say.
package examples_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/examples/internal/proctest"
)

func TestExamples_Load(t *testing.T) {
	files, err := filepath.Glob("*/gateway.hcl")
	if err != nil || len(files) == 0 {
		t.Fatalf("Glob = %v, %v, want the examples", files, err)
	}
	for _, file := range files {
		example := filepath.Dir(file)
		t.Run(example, func(t *testing.T) {
			if _, diagnostics := config.Load(example, config.Options{AllowUnsetEnv: true}); diagnostics.HasErrors() {
				t.Error(diagnostics.Err())
			}
		})
	}
}

// A recipe is accepted as it is, fits on a screen, and says who signs in how and whether it was run.
func TestIdentity_EachRecipeIsAccepted(t *testing.T) {
	files, err := filepath.Glob("identity/*.hcl")
	if err != nil || len(files) != 8 {
		t.Fatalf("Glob = %v, %v, want eight recipes", files, err)
	}
	readme, err := os.ReadFile("identity/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		_, diagnostics := config.Load(file, config.Options{})
		if diagnostics.Err() != nil || len(diagnostics.Warnings()) > 0 {
			t.Errorf("%v, warnings %v", diagnostics.Err(), diagnostics.Warnings())
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text, name := string(content), filepath.Base(file)
		if n := strings.Count(text, "\n"); n > 50 || !strings.Contains(text, "\n# Clients: ") || !strings.Contains(text, "By its documents") {
			t.Errorf("%s has %d lines, or does not say who signs in, or whether it was run", file, n)
		}
		if !strings.Contains(string(readme), "\n| [`"+name+"`]("+name+") | ") {
			t.Errorf("README lacks %s", name)
		}
	}
}

func TestQuickstart_ListsAndGets(t *testing.T) {
	run := start(t, "quickstart", "")

	run.lists(t, nil, "guides.postmortem", "handbook.incident_report", "handbook.shift_handover", "reviews.code_review", "reviews.commit_message")
	if got, err := run.promptweir(t, "get", "--skill", "skill://guides/postmortem/SKILL.md", "TEMPLATE.md", "--url", run.endpoint); err != nil || !strings.Contains(got, "## Impact") {
		t.Errorf("the skill's template is %q, %v", got, err)
	}
	for _, test := range []struct {
		get  []string
		want string
	}{
		{get: []string{"reviews.code_review", "code=x := 1"}, want: "x := 1"},
		{get: []string{"reviews.code_review", "code=x := 1", "language=Go"}, want: "Its language is Go."},
		{get: []string{"handbook.incident_report", "notes=it broke"}, want: "it broke"},
	} {
		got, err := run.promptweir(t, slices.Concat([]string{"get"}, test.get, []string{"--url", run.endpoint})...)
		if err != nil || !strings.Contains(got, test.want) {
			t.Errorf("get %q = %q, %v, want %q in it", test.get, got, err, test.want)
		}
	}
}

func TestQuickstart_FollowsChangedFiles(t *testing.T) {
	run := start(t, "quickstart", "")
	added := filepath.Join(filepath.Dir(filepath.Dir(run.binary)), "quickstart", "teams", "handbook", "incident_of_the_day.md")
	if err := os.WriteFile(added, []byte("Tell me the story of an incident."), 0o600); err != nil {
		t.Fatal(err)
	}
	run.lists(t, nil, "guides.postmortem", "handbook.incident_of_the_day", "handbook.incident_report", "handbook.shift_handover",
		"reviews.code_review", "reviews.commit_message")
}

func TestTwoTeams_SeeTheirOwnAndExposedPrompts(t *testing.T) {
	run := start(t, "two-teams", "1h")

	run.lists(t, []string{"--token", "engineering-demo"},
		"handbook.incident_report", "reviews.code_review", "reviews.commit_message")
	run.lists(t, []string{"--token", "operations-demo"},
		"handbook.incident_report", "reviews.code_review")

	for _, test := range []struct {
		token, name string
		ok          bool
	}{
		{"engineering-demo", "reviews.code_review", true},
		{"operations-demo", "reviews.code_review", true},
		{"engineering-demo", "reviews.commit_message", true},
		{"operations-demo", "reviews.commit_message", false},
		{"operations-demo", "handbook.shift_handover", false},
		{"nobody", "reviews.code_review", false},
	} {
		got, err := run.promptweir(t, "get", test.name, "code=x", "diff=x", "--url", run.endpoint, "--token", test.token)
		if (err == nil) != test.ok {
			t.Errorf("get %s with the token %s = %q, %v, want ok = %v", test.name, test.token, got, err, test.ok)
		}
	}
}

// example is a running example: the gateway on a free port, with the handbook server behind it if the example has one.
type example struct {
	binary   string
	endpoint string
}

// start builds the programs and runs a copy of an example that uses free ports. Without changeEvery, no server is started.
func start(t *testing.T, name, changeEvery string) example {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	proctest.Build(t, bin, "./cmd/promptweir", "./examples/servers/reviews", "./examples/servers/handbook")

	folder := filepath.Join(dir, name)
	if changeEvery == "" {
		proctest.CopyExample(t, folder, name)
	} else {
		handbook := proctest.Start(t, dir, filepath.Join(bin, "handbook"), "-listen", "127.0.0.1:0", "-change-every", changeEvery)
		proctest.CopyExample(t, folder, name, "http://127.0.0.1:9090/mcp", handbook.Attr(t, "endpoint"))
	}

	binary := filepath.Join(bin, "promptweir")
	gateway := proctest.Start(t, dir, binary, "serve", "--config", folder)
	return example{binary: binary, endpoint: gateway.Attr(t, "endpoint")}
}

// promptweir runs a command of the built binary.
func (e example) promptweir(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return proctest.Output(t.Context(), e.binary, args...)
}

// lists asserts that promptweir list prints exactly these names before long: servers take a moment to be listed.
func (e example) lists(t *testing.T, flags []string, want ...string) {
	t.Helper()
	args := slices.Concat([]string{"list", "--url", e.endpoint}, flags)
	names := regexp.MustCompile(`\b(reviews|handbook|guides)\.[a-z_]+`)
	var diff string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		out, err := e.promptweir(t, args...)
		if err != nil { // where none of them is listed yet
			diff = err.Error()
			continue
		}
		got := slices.Compact(slices.Sorted(slices.Values(names.FindAllString(out, -1))))
		if diff = cmp.Diff(want, got); diff == "" {
			return
		}
	}
	t.Errorf("list %q (-want +got):\n%s", flags, diff)
}
