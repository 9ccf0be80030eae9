package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"
)

// mistake is what is to be said about a file, which has it in its first line: # KIND | LINE | CAUSE | REMEDY.
type mistake struct {
	isWarning     bool
	line          int
	cause, remedy string
}

func mistakeIn(content string) (m mistake, err error) {
	first, _, _ := strings.Cut(content, "\n")
	parts := strings.Split(strings.TrimPrefix(first, "# "), " | ")
	if len(parts) != 4 {
		return m, fmt.Errorf("the first line is %q", first)
	}
	m = mistake{isWarning: parts[0] == "WARNING", cause: parts[2], remedy: parts[3]}
	m.line, err = strconv.Atoi(parts[1])
	return m, err
}

// missing returns what of the place, the cause and the remedy a text does not say.
func (m mistake) missing(text string, places ...string) (parts []string) {
	text = strings.Join(strings.Fields(text), " ") // diagnostics are wrapped
	for _, want := range append(places, m.cause, m.remedy) {
		if !strings.Contains(text, want) {
			parts = append(parts, want)
		}
	}
	return parts
}

// mistakeCommand is for scripts: mistake FILE checks what list prints about the file or, if it is a warning, validate.
func mistakeCommand(ts *testscript.TestScript, _ bool, args []string) {
	m, err := mistakeIn(ts.ReadFile(args[0]))
	ts.Check(err)
	command := "list"
	if m.isWarning {
		command = "validate"
	}
	if err := ts.Exec("promptweir", command, "--config", args[0]); (err == nil) != m.isWarning {
		ts.Fatalf("%s of %s: %v", command, args[0], err)
	}
	if missing := m.missing(ts.ReadFile("stderr"), fmt.Sprintf("on %s line %d,", args[0], m.line)); len(missing) > 0 {
		ts.Fatalf("%s: not said: %q", args[0], missing)
	}
}

// A running gateway says the same in its log, in /readyz and in response to the reload, and goes on as before.
func TestMistakes_AreInTheLogAndReadyz(t *testing.T) {
	archive, err := txtar.ParseFile(filepath.Join("testdata", "script", "mistakes.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.Files) < 20 {
		t.Fatalf("%d mistakes, want at least 20", len(archive.Files))
	}
	folder := configure(t, map[string]string{"team.hcl": ""})
	p := serve(t, folder)
	for _, file := range archive.Files {
		m, err := mistakeIn(string(file.Data))
		if err != nil {
			t.Fatal(err)
		}
		if m.isWarning {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, "team.hcl"), file.Data, 0o600); err != nil {
			t.Fatal(err)
		}
		place := fmt.Sprintf("team.hcl:%d: ", m.line)
		if missing := m.missing(reloadRefused(t, p), place); len(missing) > 0 {
			t.Errorf("%s: the response to the reload does not say %q", file.Name, missing)
		}
		status, readiness := p.page(t, "/readyz")
		if missing := m.missing(unquoted(t, readiness), place); status != http.StatusOK || len(missing) > 0 {
			t.Errorf("%s: /readyz is %d and does not say %q", file.Name, status, missing)
		}
		eventually(t, "the log says it too", func() bool {
			return len(m.missing(unquoted(t, lastRefusal(p.logged())), place)) == 0
		})
	}
}

// reloadRefused asks for a reload that is refused, and returns the reasons.
func reloadRefused(t *testing.T, p *gatewayProcess) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.admin+"/-/reload", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("POST /-/reload: status %d\n%s", response.StatusCode, &body)
	}
	return unquoted(t, body.String())
}

// lastRefusal returns the last record of the log about a configuration that was refused.
func lastRefusal(log string) string {
	for _, line := range slices.Backward(strings.Split(log, "\n")) {
		if strings.Contains(line, "configuration refused") {
			return line
		}
	}
	return "{}"
}

// unquoted returns all texts in a JSON value, or a text that is none as it is.
func unquoted(t *testing.T, text string) string {
	t.Helper()
	var value any
	if json.Unmarshal([]byte(text), &value) != nil {
		return text
	}
	var texts []string
	var collect func(any)
	collect = func(value any) {
		switch v := value.(type) {
		case string:
			texts = append(texts, v)
		case []any:
			for _, element := range v {
				collect(element)
			}
		case map[string]any:
			for _, element := range v {
				collect(element)
			}
		}
	}
	collect(value)
	return strings.Join(texts, "\n")
}
