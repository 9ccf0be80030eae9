package config

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
)

// environment holds the variables of the fixtures.
func environment(name string) (string, bool) {
	value, ok := map[string]string{
		"A_TOKEN":        "hunter2-a",
		"CURSOR":         "hunter2-0123456789abcdef01234567",
		"LISTEN":         "localhost:7000",
		"PAYMENTS_TOKEN": "hunter2-payments",
		"PLATFORM":       "for everybody",
		"SECRET":         "hunter2-env",
	}[name]
	return value, ok
}

func options() Options { return Options{LookupEnv: environment} }

// expectation is one "# ERROR: text" or "# WARNING: text" of a fixture.
type expectation struct {
	place    Place
	severity hcl.DiagnosticSeverity
	text     string
}

var expected = regexp.MustCompile(`# (ERROR|WARNING):`)

// expectations returns the marks in a file.
func expectations(t *testing.T, path string) []expectation {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var marks []expectation
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		at := expected.FindAllStringSubmatchIndex(lines.Text(), -1)
		for i, m := range at {
			end := len(lines.Text())
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			e := expectation{Place{path, n}, hcl.DiagError, strings.TrimSpace(lines.Text()[m[1]:end])}
			if lines.Text()[m[2]:m[3]] == "WARNING" {
				e.severity = hcl.DiagWarning
			}
			marks = append(marks, e)
		}
	}
	return marks
}

func TestLoad_ReportsEachMistakeOnItsLineAndNothingElse(t *testing.T) {
	for _, path := range fixtures(t) {
		t.Run(filepath.Base(path), func(t *testing.T) { checkFixture(t, path) })
	}
}

// fixtures returns the files and folders with marks.
func fixtures(t *testing.T) []string {
	t.Helper()
	files, _ := filepath.Glob("testdata/invalid/*.hcl")
	folders, _ := filepath.Glob("testdata/invalid-folders/*")
	if len(files) == 0 || len(folders) == 0 {
		t.Fatal("no fixtures")
	}
	return append(files, folders...)
}

// The summaries of warnings are in the code.
func TestFixtures_CauseEveryWarning(t *testing.T) {
	caused := []string{"Team left out"} // only by LoadTolerant
	for _, path := range fixtures(t) {
		_, diags := Load(path, options())
		caused = append(caused, diags.Warnings()...)
	}
	paths, _ := filepath.Glob("*.go")
	inner, _ := filepath.Glob("internal/hclread/*.go")
	for _, path := range slices.Concat(paths, inner) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, call := range regexp.MustCompile(`\.Warn(?:ing|Hidden)\((?:.*".*|.*,\n)`).FindAllString(fileText(t, path), -1) {
			summary := regexp.MustCompile(`, "([^"]+)"|$`).FindStringSubmatch(call)[1]
			if summary == "" || !strings.Contains(strings.Join(caused, "\n"), summary) {
				t.Errorf("%s: no file in testdata/invalid causes the warning %q of %s", path, summary, call)
			}
		}
	}
}

func checkFixture(t *testing.T, path string) {
	opts := options()
	var marks []expectation
	err := filepath.Walk(path, func(file string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			marks = append(marks, expectations(t, file)...)
			content, _ := os.ReadFile(file)
			opts.AllowUnsetEnv = opts.AllowUnsetEnv || strings.HasPrefix(string(content), "# validate\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	isWrong := slices.ContainsFunc(marks, func(e expectation) bool { return e.severity == hcl.DiagError })
	cfg, diags := Load(path, opts)
	if len(marks) == 0 || (cfg == nil) != isWrong || diags.HasErrors() != isWrong {
		t.Errorf("Load(%s) = %v and %v, with %d marks", path, cfg, diags.Err(), len(marks))
	}
	for _, d := range diags.report.Diagnostics {
		i := slices.IndexFunc(marks, func(e expectation) bool { return e.matches(d) })
		if i < 0 {
			t.Errorf("not marked: %s", line(d))
			continue
		}
		marks = slices.Delete(marks, i, i+1)
	}
	for _, e := range marks {
		t.Errorf("%s: marked %q, but not reported", e.place, e.text)
	}
	checkSecretsAreMasked(t, diags)
}

func (e expectation) matches(d *hcl.Diagnostic) bool {
	return d.Subject != nil && placeOf(*d.Subject) == e.place && d.Severity == e.severity &&
		strings.Contains(d.Summary+"; "+d.Detail, e.text)
}

// checkSecretsAreMasked looks for the text that every secret of the fixtures contains.
func checkSecretsAreMasked(t *testing.T, diags Diagnostics) {
	t.Helper()
	text := printed(t, diags) + fmt.Sprint(diags.Err())
	for _, secret := range []string{"hunter2", "9f86d081"} {
		if strings.Contains(text, secret) {
			t.Errorf("diagnostics show %q:\n%s", secret, text)
		}
	}
}
