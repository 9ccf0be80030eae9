package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"
)

// mistake is what is to be said about a file, which has it in its first line: # KIND | LINE | CAUSE
// | REMEDY.
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

// mistakeCommand is for scripts: mistake FILE checks the diagnostics that list prints about the file
// or, if the mistake is a warning, those of validate, which starts nothing.
func mistakeCommand(ts *testscript.TestScript, _ bool, args []string) {
	m, err := mistakeIn(ts.ReadFile(args[0]))
	ts.Check(err)
	command := []string{"list", "--config", args[0]}
	if m.isWarning {
		command[0] = "validate"
	}
	if err := ts.Exec("promptweir", command...); (err == nil) != m.isWarning {
		ts.Fatalf("%q: %v", command, err)
	}
	if missing := m.missing(ts.ReadFile("stderr"), fmt.Sprintf("on %s:%d:", args[0], m.line)); len(missing) > 0 {
		ts.Fatalf("%q: not said: %q", command, missing)
	}
}

// A running gateway says the same in its log, in /readyz and in response to the reload, and goes on
// as before.
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
		text := strings.ReplaceAll(string(file.Data), "b.example.com", "127.0.0.1:1") // in case it is to be connected to
		recent := len(p.logged())
		writeFile(t, folder, "team.hcl", text)
		place := fmt.Sprintf("team.hcl:%d: ", m.line)
		status, response := reload(t, p)
		switch {
		case m.isWarning && status != http.StatusOK:
			t.Errorf("%s: POST /-/reload: status %d\n%s", file.Name, status, response)
		case m.isWarning:
		case status != http.StatusOK && status != http.StatusUnprocessableEntity: // the former where only a team has it
			t.Errorf("%s: POST /-/reload: status %d\n%s", file.Name, status, response)
		case len(m.missing(response, place)) > 0:
			t.Errorf("%s: the response to the reload does not say %q", file.Name, m.missing(response, place))
		}
		status, readiness := p.page(t, "/readyz")
		if missing := m.missing(unquoted(readiness), place); status != http.StatusOK || len(missing) > 0 {
			t.Errorf("%s: /readyz is %d and does not say %q", file.Name, status, missing)
		}
		eventually(t, "the log says it too", func() bool {
			for line := range strings.Lines(p.logged()[recent:]) {
				if len(m.missing(unquoted(line), place)) == 0 {
					return true
				}
			}
			return false
		})
	}
}

// A warning of the configuration that a gateway starts with is in /readyz from the start, and no
// longer once it is mended.
func TestMistakes_WarningsOfTheStartAreInReadyzUntilMended(t *testing.T) {
	const team = "team \"payments\" {\n  upstream \"billing\" { files = [\"*.md\"] }\n  hide \"wip\" { prompts = [\"%s.wip_*\"] }\n}\n"
	folder := configure(t, map[string]string{"team.hcl": fmt.Sprintf(team, "biling")})
	p := serve(t, folder)
	if _, readiness := p.page(t, "/readyz"); !strings.Contains(readiness, `"warnings"`) || !strings.Contains(readiness, "team.hcl:3: ") {
		t.Errorf("/readyz has no warning:\n%s", readiness)
	}
	writeFile(t, folder, "team.hcl", fmt.Sprintf(team, "billing"))
	if status, response := reload(t, p); status != http.StatusOK {
		t.Fatalf("POST /-/reload: status %d\n%s", status, response)
	}
	if _, readiness := p.page(t, "/readyz"); strings.Contains(readiness, `"warnings"`) {
		t.Errorf("/readyz has a warning still:\n%s", readiness)
	}
}

// reload asks for a reload, and returns the status and text of the response.
func reload(t *testing.T, p *gatewayProcess) (status int, text string) {
	t.Helper()
	status, text = p.send(t, http.MethodPost, "/-/reload")
	return status, unquoted(text)
}

// unquoted returns what JSON has of texts as they are.
func unquoted(text string) string {
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\n`, "\n", `\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(text)
}
