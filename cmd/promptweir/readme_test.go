package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// table is a table of a page by its rows' first cells.
type table map[string][]string

// readTables returns the tables of README.md by their headings. A heading with several tables has
// them joined.
func readTables(t *testing.T) map[string]table {
	t.Helper()
	return readTablesOf(t, "README.md")
}

func readTablesOf(t *testing.T, page string) map[string]table {
	t.Helper()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]table{}
	for _, section := range regexp.MustCompile(`(?m)^## `).Split(string(content), -1)[1:] {
		heading, text, _ := strings.Cut(section, "\n")
		rows := table{}
		for line := range strings.Lines(text) {
			if cells := cellsOf(line); len(cells) > 1 && strings.HasPrefix(cells[0], "`") {
				if rows[cells[0]] != nil {
					t.Errorf("%s, %s: %s has two rows", page, heading, cells[0])
				}
				rows[cells[0]] = cells[1:]
			}
		}
		tables[heading] = rows
	}
	return tables
}

// cellsOf returns the cells of a table's line. A cell may contain \|.
func cellsOf(line string) (cells []string) {
	line, isRow := strings.CutPrefix(strings.TrimSpace(line), "|")
	if !isRow {
		return nil
	}
	for cell := range strings.SplitSeq(strings.ReplaceAll(strings.TrimSuffix(line, "|"), `\|`, "\x00"), "|") {
		cells = append(cells, strings.TrimSpace(strings.ReplaceAll(cell, "\x00", "|")))
	}
	return cells
}

// quoted returns the texts in backquotes.
func quoted(cell string) (texts []string) {
	for _, match := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
		texts = append(texts, match[1])
	}
	return texts
}

// names returns the texts in backquotes of all first cells.
func (rows table) names() (names []string) {
	for cell := range rows {
		names = append(names, quoted(cell)...)
	}
	slices.Sort(names)
	return names
}

func TestReadme_HasEveryCommand(t *testing.T) {
	root := newRoot(newApp(streams{}))
	root.InitDefaultHelpCmd()
	var want []string
	for _, command := range root.Commands() {
		want = append(want, command.Use)
	}
	slices.Sort(want)
	commands := readTables(t)["Commands"]
	upstreamtest.Equal(t, want, commands.names(), "the README's commands")
	if cut := fmt.Sprintf(" cut at %d bytes;", maxDescription); !strings.Contains(fmt.Sprint(commands), cut) {
		t.Errorf("the README does not say that descriptions are%s", cut)
	}
}

// Some metrics appear only with an event. The second check finds metrics whose event the test does not cause.
func TestReadme_HasEveryMetricWithItsLabels(t *testing.T) {
	want := parseMetrics(eventfulPage(t))
	got := map[string][]string{}
	for cell, cells := range readTables(t)["Metrics"] {
		labels := quoted(cells[1])
		slices.Sort(labels)
		got[strings.Trim(cell, "`")] = labels
	}
	upstreamtest.Equal(t, want, got, "the README's metrics and labels")
	for _, instrument := range instruments(t) {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(name string) bool {
			return strings.HasPrefix(name, strings.ReplaceAll(instrument, ".", "_"))
		}) {
			t.Errorf("no metric of the instrument %s: let eventfulPage cause it", instrument)
		}
	}
}

// eventfulPage returns the metrics page of a gateway after events that make every instrument
// record.
func eventfulPage(t *testing.T) (text string) {
	t.Helper()
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	certificate, key := newAuthority(t).server()
	folder := configure(t, map[string]string{
		"audit.hcl": fmt.Sprintf("audit { path = %q }\n", filepath.Join(t.TempDir(), "audit.jsonl")),
		"auth.hcl":  "auth {\n token \"red\" { sha256 = sha256(\"red\") }\n token \"blue\" { sha256 = sha256(\"blue\") }\n}",
		"team.hcl": fmt.Sprintf(`
team "greeters" {
  members = ["user:red", "user:blue"]
  upstream "child" { command = [%q] }
  upstream "web" {
    url = %q
    breaker { failures = 1 }
  }
  upstream "down" {
    url = %q
    tls {
      cert_file = "client.crt"
      key_file  = "client.key"
    }
  }
  prompt "child.none" { title = "a report: there is no such prompt" }
}`, program(t, "greeter"), refusingGets(t), strings.Replace(down.URL, "http:", "https:", 1)),
		"client.crt": certificate, "client.key": key,
	})
	shared := "cluster { store = \"redis://127.0.0.1:1\" }" + // which is away
		strings.Replace(anyPort, "gateway {", "gateway {\n  cursor_keys = [base64encode(\"0123456789abcdef0123456789abcdef\")]", 1)
	writeFile(t, folder, "listen.hcl", shared)
	p := serve(t, folder)
	eventually(t, "both upstreams listed", func() bool {
		return strings.Contains(p.list(t, "red").names(), "child.hello child.pid child.slow child.wip_bye web.hello")
	})
	p.list(t, "green")                                                                // a refused credential
	p.get(t, "child.slow", "red", "file", filepath.Join(t.TempDir(), "none", "none")) // an error of the upstream
	for _, token := range []string{"red", "blue", "red", "blue"} {                    // an upstream that does not answer; one caller alone opens no breaker
		p.get(t, "web.pid", token)
	}
	stream := p.subscribe(t, "red")
	defer stream.Body.Close()
	hide := []byte("hide \"bye\" { prompts = [\"*.wip_bye\"] }\n")
	if err := os.WriteFile(filepath.Join(folder, "hide.hcl"), hide, 0o600); err != nil { // a change that the stream is told of
		t.Fatal(err)
	}
	eventually(t, "the change is announced", func() bool {
		_, text = p.page(t, "/metrics")
		return strings.Contains(text, "promptweir_notification_duration_seconds_count")
	})
	return text
}

// parseMetrics returns the labels of each metric of the gateway's own, in Prometheus' text format.
func parseMetrics(text string) map[string][]string {
	metrics := map[string][]string{}
	own := regexp.MustCompile(`(?m)^# TYPE ((?:mcp|promptweir)_\w+) `)
	for _, match := range own.FindAllStringSubmatch(text, -1) {
		metrics[match[1]] = nil
	}
	for _, sample := range regexp.MustCompile(`(?m)^(\w+)\{(.*)\} `).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(sample[1], "")
		labels, isOwn := metrics[name]
		if !isOwn {
			continue
		}
		for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(sample[2], -1) {
			if label[1] != "le" && !strings.HasPrefix(label[1], "otel_scope_") && !slices.Contains(labels, label[1]) {
				labels = append(labels, label[1])
			}
		}
		slices.Sort(labels)
		metrics[name] = labels
	}
	return metrics
}

// instruments returns the names of all instruments that the code declares.
func instruments(t *testing.T) (names []string) {
	t.Helper()
	for _, call := range nodes[*ast.CallExpr](t) {
		if regexp.MustCompile(`(Histogram|Counter|[gG]auge)$`).MatchString(called(call)) {
			if name, ok := literal(call.Args[0]); ok {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		t.Error("the code declares no instruments")
	}
	return names
}

func TestReadme_HasEveryReason(t *testing.T) {
	want := map[string]bool{}
	for _, spec := range nodes[*ast.ValueSpec](t) {
		for i, value := range spec.Values {
			reason, ok := literal(value)
			if ok && (nameOf(spec.Type) == "Reason" || strings.HasPrefix(spec.Names[i].Name, "argument")) {
				want[reason] = true
			}
		}
	}
	for _, function := range nodes[*ast.FuncDecl](t) {
		if function.Name.Name != "Reason" || function.Recv != nil { // seal.Reason
			continue
		}
		for _, result := range inside[*ast.ReturnStmt](function) {
			if reason, ok := literal(result.Results[0]); ok && reason != "" {
				want[reason] = true
			}
		}
	}
	for _, call := range nodes[*ast.CallExpr](t) {
		if called(call) != "With" || len(call.Args) != 2 {
			continue
		}
		member, _ := literal(call.Args[0])
		value, ok := call.Args[1].(*ast.CallExpr)
		if !ok || member != "reason" {
			continue
		}
		// The reasons of notifications/cancelled are sentences.
		if reason, ok := literal(value.Args[0]); ok && !strings.Contains(reason, " ") {
			want[reason] = true
		}
	}
	rows := readTables(t)["Reasons"]
	upstreamtest.Equal(t, slices.Sorted(maps.Keys(want)), rows.names(), "the README's reasons")
	for reason, cells := range rows {
		if len(cells) != 2 || !strings.HasSuffix(cells[0], ".") || !strings.HasSuffix(cells[1], ".") {
			t.Errorf("README: the reason %s needs a sentence and a remedy, and has %q", reason, cells)
		}
	}
}

func TestReadme_HasEveryErrorInTheLog(t *testing.T) {
	logged := loggedMessages(t)
	messages := readTables(t)["Logs"].names()
	for _, message := range messages {
		if _, ok := logged[message]; !ok {
			t.Errorf("README has the log message %q, which the code does not log as a warning or an error", message)
		}
	}
	for message, isError := range logged {
		if isError && !slices.Contains(messages, message) {
			t.Errorf("README lacks the error %q", message)
		}
	}
}

// The page tells which of them are worth an alert; some of these are warnings that need no row in
// the README.
func TestAlerts_AreAboutMessagesThatAreLogged(t *testing.T) {
	logged := loggedMessages(t)
	messages := readTablesOf(t, "ALERTS.md")["Log messages"].names()
	for _, message := range messages {
		if _, ok := logged[message]; !ok {
			t.Errorf("ALERTS.md has the log message %q, which the code does not log as a warning or an error", message)
		}
	}
	if len(messages) == 0 {
		t.Error("ALERTS.md has no log messages")
	}
}

// loggedMessages returns the warnings and errors that the code logs, and which of them are errors.
func loggedMessages(t *testing.T) map[string]bool {
	t.Helper()
	logged := map[string]bool{}
	for _, call := range nodes[*ast.CallExpr](t) {
		for _, arg := range call.Args {
			message, ok := literal(arg)
			if method := called(call); ok && slices.Contains([]string{"ErrorContext", "Warn", "WarnContext"}, method) {
				logged[message] = logged[message] || method == "ErrorContext"
			}
		}
	}
	return logged
}

func TestReadme_HasEveryVariable(t *testing.T) {
	// Libraries and the runtime read these. The variables of a proxy stand in the README of upstream.
	want := map[string]bool{"OTEL_*": true, "GOMEMLIMIT": true, "NOTIFY_SOCKET": true}
	for _, call := range nodes[*ast.CallExpr](t) {
		name, ok := literal(first(call.Args))
		if called(call) == "addSecret" {
			name, ok = literal(call.Args[2])
		}
		if ok && slices.Contains([]string{"Getenv", "addSecret"}, called(call)) &&
			!strings.HasPrefix(name, "OTEL_") && !strings.EqualFold(name, "NO_PROXY") {
			want[name] = true
		}
	}
	upstreamtest.Equal(t, slices.Sorted(maps.Keys(want)), readTables(t)["Environment"].names(), "the README's environment variables")
}

func TestReadme_HasEveryAdminPath(t *testing.T) {
	want := map[string]bool{"/": true} // the console, whose other pages are for people
	for _, call := range nodes[*ast.CallExpr](t) {
		pattern, ok := literal(first(call.Args))
		if !ok || (called(call) != "HandleFunc" && called(call) != "Handle") {
			continue
		}
		_, path, hasMethod := strings.Cut(pattern, " ")
		if !hasMethod || regexp.MustCompile(`^/debug/pprof/.`).MatchString(path) {
			continue // "/debug/" hands over to the profiles, whose index lists them
		}
		want[strings.TrimSuffix(path, "{$}")] = true
	}
	upstreamtest.Equal(t, slices.Sorted(maps.Keys(want)), readTables(t)["Admin listener"].names(), "the README's paths of the admin listener")
}

// nodes returns all syntax of a kind in the code of cmd/promptweir, config/watch, gateway and
// upstream, without tests.
func nodes[N ast.Node](t *testing.T) (found []N) {
	t.Helper()
	files, err := parsedFiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		found = append(found, inside[N](file)...)
	}
	return found
}

var parsedFiles = sync.OnceValues(func() (files []*ast.File, err error) { //nolint:gochecknoglobals // read once for all tests
	for _, folder := range []string{".", "../../config/watch", "../../gateway", "../../upstream"} {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			files = append(files, file)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
})

func inside[N ast.Node](root ast.Node) (found []N) {
	ast.Inspect(root, func(node ast.Node) bool {
		if n, ok := node.(N); ok {
			found = append(found, n)
		}
		return true
	})
	return found
}

// called returns the name of a call's function or method.
func called(call *ast.CallExpr) string { return nameOf(call.Fun) }

// nameOf returns the name of a type, a function or a method without its package or receiver.
func nameOf(expression ast.Expr) string {
	switch expression := expression.(type) {
	case *ast.Ident:
		return expression.Name
	case *ast.SelectorExpr:
		return expression.Sel.Name
	}
	return ""
}

func first(expressions []ast.Expr) ast.Expr {
	if len(expressions) == 0 {
		return nil
	}
	return expressions[0]
}

// literal returns the value of a string literal, or of a sum of some.
func literal(expression ast.Expr) (string, bool) {
	switch e := expression.(type) {
	case *ast.BinaryExpr:
		left, isText := literal(e.X)
		right, areTexts := literal(e.Y)
		return left + right, isText && areTexts
	case *ast.BasicLit:
		value, err := strconv.Unquote(e.Value)
		return value, err == nil && e.Kind == token.STRING
	}
	return "", false
}
