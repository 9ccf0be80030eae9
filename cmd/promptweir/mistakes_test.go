package main

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// mistake is the expected message about a file, from its first line: # KIND | LINE | CAUSE | REMEDY.
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

// missing returns the parts of location, cause and remedy that a text lacks.
func (m mistake) missing(text, place string) (parts []string) {
	text = strings.Join(strings.Fields(text), " ") // diagnostics are wrapped
	for _, want := range []string{place, m.cause, m.remedy} {
		if !strings.Contains(text, want) {
			parts = append(parts, want)
		}
	}
	return parts
}

// mistakeCommand is for scripts. mistake FILE checks the diagnostics that list prints about the file. If the
// mistake is a warning, it uses validate, which starts nothing.
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

// A warning about the first configuration is in /readyz until a reload without it.
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

// unquoted returns a JSON text without escapes.
func unquoted(text string) string {
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\n`, "\n", `\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(text)
}
