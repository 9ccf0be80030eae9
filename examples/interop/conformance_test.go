package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/promptweir/promptweir/examples/internal/proctest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

const (
	// suiteBound bounds one run of the conformance suite. The longest takes five seconds.
	suiteBound = 90 * time.Second
	// reference is the Go SDK's server for the suite.
	reference = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"
)

// conformable is the gateway's configuration for the suite, which gets prompts by fixed names and does not authenticate.
const conformable = `
gateway {
  listen   = "127.0.0.1:0"
  variants = ["tools"]
}
admin { listen = "127.0.0.1:0" }

team "conformance" {
  upstream "reference" {
    url    = %q
    prefix = ""
  }
}
`

// requirementSet selects the scenarios that a revision requires, frozen at its release.
func requirementSet(revision string) []string { return []string{"--requirements", revision} }

// allScenarios selects every scenario that the suite has for a revision, including later ones and those of revisions without
// a requirement set.
func allScenarios(revision string) []string {
	return []string{"--suite", "all", "--spec-version", revision}
}

// TestConformance_Server runs the official suite against the gateway. Each scenario must pass, or fail as the file of expected
// failures says, with its reason. Those that are named here must have run and passed.
func TestConformance_Server(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	proctest.Build(t, dir, "./cmd/promptweir", reference)
	prompts := []string{
		"completion-complete", "prompts-list", "prompts-get-simple", "prompts-get-with-args",
		"prompts-get-embedded-resource", "prompts-get-with-image",
	}
	legacy := slices.Concat(prompts, []string{"server-initialize", "ping", "logging-set-level"})
	newest := slices.Concat(legacy, []string{"dns-rebinding-protection", "server-sse-multiple-streams"})
	modern := slices.Concat(prompts, []string{
		"dns-rebinding-protection", "input-required-result-non-tool-request", "input-required-result-unsupported-methods",
	})
	runs := []suiteRun{
		{"2025-03-26", allScenarios("2025-03-26"), "legacy", []string{"server-session-lifecycle"}, nil},
		{"2025-06-18", allScenarios("2025-06-18"), "legacy", append(slices.Clone(legacy), "server-session-lifecycle"), nil},
		{"2025-11-25 required", requirementSet("2025-11-25"), "legacy", newest, nil},
		{"2025-11-25", allScenarios("2025-11-25"), "legacy", append(slices.Clone(newest), "server-session-lifecycle"), nil},
		{"2026-07-28 required", requirementSet("2026-07-28"), "modern", modern, nil},
		{"2026-07-28", allScenarios("2026-07-28"), "modern", modern, nil},
	}
	// Where there are tools, what begins with a list of them passes. The other scenarios of tools call those of a reference server.
	toolsList := []string{"tools-list", "http-header-validation", "server-sse-multiple-streams"}
	atTools := []suiteRun{
		{"2025-11-25", allScenarios("2025-11-25"), "legacy", append(slices.Clone(newest), "tools-list"), nil},
		{"2026-07-28", allScenarios("2026-07-28"), "modern", slices.Concat(modern, toolsList), append(toolsList, "caching:sep-2549-tools-list-caching-hints")},
	}
	// A server with sessions is of the legacy era. Its server requests during a get become an input-required result in
	// 2026-07-28, for which that revision has a scenario.
	for name, stateless := range map[string]bool{"sessions": false, "stateless": true} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "gateway.hcl")
			config := fmt.Appendf(nil, conformable, startReference(t, dir, stateless))
			if err := os.WriteFile(file, config, 0o600); err != nil {
				t.Fatal(err)
			}
			gateway := proctest.Start(t, dir, filepath.Join(dir, "promptweir"), "serve", "--config", file)
			endpoint := gateway.Attr(t, "endpoint")
			waitUntilListed(t, endpoint, []string{
				"test_input_required_result_prompt", "test_prompt_with_arguments", "test_prompt_with_embedded_resource",
				"test_prompt_with_image", "test_simple_prompt",
			})
			for _, run := range runs {
				t.Run(run.name, func(t *testing.T) { run.do(t, "server", "--url", endpoint) })
			}
			for _, run := range atTools {
				t.Run(run.name+" at tools", func(t *testing.T) { run.do(t, "server", "--url", endpoint+"/tools") })
			}
		})
	}
}

// TestConformance_Client runs the official suite against the gateway's upstream side, through promptweir
// list and get with a configuration.
func TestConformance_Client(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	proctest.Build(t, dir, "./cmd/promptweir")
	command := "sh " + filepath.Join("conformance", "client.sh") + " " + filepath.Join(dir, "promptweir")
	for _, run := range []suiteRun{
		{"2025-03-26", allScenarios("2025-03-26"), "legacy", nil, nil}, // only OAuth
		{"2025-06-18", allScenarios("2025-06-18"), "legacy", []string{"initialize"}, nil},
		{"2025-11-25 required", requirementSet("2025-11-25"), "legacy", []string{"initialize"}, nil},
		{"2025-11-25", allScenarios("2025-11-25"), "legacy", []string{"initialize"}, nil},
		{"2026-07-28 required", requirementSet("2026-07-28"), "modern", []string{"http-standard-headers", "request-metadata"}, nil},
		{"2026-07-28", allScenarios("2026-07-28"), "modern", []string{"http-standard-headers", "request-metadata"}, nil},
		{"extensions", []string{"--suite", "extensions"}, "extensions", []string{"auth/client-credentials-basic", "auth/client-credentials-jwt"}, nil},
	} {
		t.Run(run.name, func(t *testing.T) { run.do(t, "client", "--command", command) })
	}
}

// suiteRun is one call of the suite.
type suiteRun struct {
	name      string
	scenarios []string // the flags that choose them
	expected  string   // the file of failures that are expected
	passes    []string // the scenarios that have to be run and to pass
	but       []string // those of the file that pass all the same
}

// expectedFailures returns the path of the file without those that pass all the same.
func (r suiteRun) expectedFailures(t *testing.T) string {
	t.Helper()
	path := filepath.Join("conformance", r.expected+".yaml")
	if r.but == nil {
		return path
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, scenario := range r.but {
		rest := strings.Replace(string(text), "  - "+scenario+"\n", "", 1)
		if len(rest) == len(text) {
			t.Errorf("%s does not expect that %s fails", path, scenario)
		}
		text = []byte(rest)
	}
	path = filepath.Join(t.TempDir(), "expected.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// do runs the suite against one side. The suite itself checks that nothing failed or passed unexpectedly, but not whether a
// scenario was run at all.
func (r suiteRun) do(t *testing.T, side string, flags ...string) {
	if slices.Contains(r.scenarios, "all") {
		takesLong(t)
	}
	results := t.TempDir()
	args := slices.Concat([]string{installed(t, "conformance"), side}, flags, r.scenarios, []string{
		"--expected-failures", r.expectedFailures(t), "--output-dir", results,
	})
	out, err := runNode(t, suiteBound, args...)
	if err != nil {
		// The summary comes last, after a long report of each step.
		if i := strings.Index(out, "SUMMARY ==="); i >= 0 {
			out = out[i:]
		}
		t.Errorf("conformance %s: %v\n%s", strings.Join(args[1:], " "), err, out)
	}
	found := readResults(t, results)
	var passed []string
	for _, scenario := range slices.Sorted(maps.Keys(found)) {
		if found[scenario].passed() {
			passed = append(passed, scenario)
		}
	}
	for _, scenario := range r.passes {
		if !slices.Contains(passed, scenario) {
			t.Errorf("%s has not passed:\n%s", scenario, found[scenario])
		}
	}
	for _, scenario := range unexpected(out) {
		t.Logf("%s:\n%s", scenario, found[scenario])
	}
	t.Logf("%d of %d scenarios passed (why not the others: %s.yaml): %s", len(passed), len(found), r.expected, strings.Join(passed, " "))
}

// unexpected returns the scenarios that the suite reports as unexpected failures, as "✗ SCENARIO" or "✗ SCENARIO:CHECK". In its
// summary, which also has the expected ones, a count follows the name.
func unexpected(out string) []string {
	var scenarios []string
	for _, line := range regexp.MustCompile(`(?m)^ *✗ ([^\s:]+)(:\S+)?$`).FindAllStringSubmatch(out, -1) {
		scenarios = append(scenarios, line[1])
	}
	return slices.Compact(scenarios)
}

// scenarioResult has the suite's checks of one scenario.
type scenarioResult struct {
	checks []struct{ ID, Status, Description, ErrorMessage string }
	client string // what a client under test printed
}

// passed reports whether at least one check succeeded and none failed or warned.
func (r scenarioResult) passed() bool {
	succeeded := false
	for _, check := range r.checks {
		switch check.Status {
		case "FAILURE", "WARNING":
			return false
		case "SUCCESS":
			succeeded = true
		}
	}
	return succeeded
}

// String lists the checks that did not succeed.
func (r scenarioResult) String() string {
	var text strings.Builder
	for _, check := range r.checks {
		if check.Status != "SUCCESS" {
			fmt.Fprintf(&text, "%s %s: %s: %s\n", check.Status, check.ID, check.Description, check.ErrorMessage)
		}
	}
	return text.String() + r.client
}

// readResults reads the suite's results by scenario, from folders named [server-]SCENARIO-TIME.
func readResults(t *testing.T, dir string) map[string]scenarioResult {
	t.Helper()
	results := map[string]scenarioResult{}
	name := regexp.MustCompile(`^(?:server-)?(.*)-\d{4}-\d\d-\d\dT[-\d]+Z$`)
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "checks.json" {
			return err
		}
		folder := filepath.Dir(path)
		relative, err := filepath.Rel(dir, folder)
		if err != nil {
			return err
		}
		match := name.FindStringSubmatch(relative)
		if match == nil {
			return fmt.Errorf("%s: not the name of a result", relative)
		}
		var result scenarioResult
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(content, &result.checks); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, stream := range []string{"stdout.txt", "stderr.txt"} { // of clients only
			printed, _ := os.ReadFile(filepath.Join(folder, stream))
			result.client += string(printed)
		}
		results[match[1]] = result
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return results
}

// startReference runs the reference server for one era, and returns its URL.
func startReference(t *testing.T, dir string, stateless bool) string {
	t.Helper()
	address := upstreamtest.Address(t) // it cannot choose a port itself, since it does not print which one it got
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, filepath.Base(reference)),
		"-http", address, fmt.Sprintf("-stateless=%t", stateless))
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Wait() // the test's context kills it, since it does not stop otherwise
		if t.Failed() {
			t.Logf("log of the reference server:\n%s", log.String())
		}
	})
	upstreamtest.Eventually(t, "the reference server listens", func() bool { // which it says before it does
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return "http://" + address + "/mcp"
}

// runNode runs a script and returns its standard output. The error includes its standard error. When the time is up, the script
// is killed together with all processes that it started.
func runNode(t *testing.T, bound time.Duration, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir()) // the Inspector keeps files there
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("not done after %s: %w\n%s", bound, err, stderr.String())
	case err != nil:
		err = fmt.Errorf("%w\n%s", err, stderr.String())
	}
	return stdout.String(), err
}
