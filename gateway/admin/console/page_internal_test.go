package console

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"html"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "maragu.dev/gomponents/html"

	"github.com/promptweir/promptweir/gateway/admin"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// Pasting the command of a prompt runs nothing else, with any names of arguments: no word loses its end, and a
// name that begins with hyphens is no flag.
func TestCommand_KeepsItsQuotes(t *testing.T) {
	for name, first := range map[string]string{"long": strings.Repeat("a ", 300), "quoted": strings.Repeat("'", 256), "wide": strings.Repeat("é ", 300)} {
		prompt := &admin.Prompt{Name: first, Arguments: []admin.PromptArgument{
			{Name: first, Required: true}, {Name: "$(echo ran)", Required: true}, {Name: "`echo ran`;\n", Required: true},
		}}
		shown := fmt.Sprint(command(prompt, "https://example.com/mcp"))
		_, shown, _ = strings.Cut(shown, `<code id="get">`)
		shown, _, _ = strings.Cut(shown, "</code>")
		shown = html.UnescapeString(regexp.MustCompile("<[^>]*>").ReplaceAllString(shown, ""))
		printed, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\\n' "+shown).CombinedOutput()
		words := strings.Split(strings.TrimSpace(string(printed)), "\n")
		if err != nil || len(words) != 9 || words[4] != "--" || words[7] != "$(echo ran)=…" || words[8] != "`echo ran`; =…" {
			t.Errorf("%s: a shell reads %s as %q: %v", name, shown, words, err)
		}
	}
}

func TestUpstreamCard_HasEachText(t *testing.T) {
	health := admin.UpstreamHealth{Problem: &upstream.Problem{}}
	for field, value := range reflect.ValueOf(&health).Elem().Fields() {
		if value.Kind() != reflect.String {
			continue
		}
		value.SetString("The " + field.Name)
		if card := fmt.Sprint(upstreamCard(admin.NewHistory(), &page{}, &health)); !strings.Contains(card, value.String()) {
			t.Errorf("%s is not in %s", field.Name, card)
		}
	}
}

// An address that was made from data is a link only where it leads to a page.
func TestHref_LeadsToPages(t *testing.T) {
	for address, want := range map[string]string{
		"/prompt?name=a&as=x": ` href="/prompt?name=a&amp;as=x"`, "https://example.com/": "",
		"javascript:alert(1)": "", "JavaScript:alert(1)": "", " javascript:alert(1)": "", "\tjavascript:alert(1)": "", "vbscript:x": "",
		"data:text/html,<script>": "", "//evil.example.com": "", `/\evil.example.com`: "", "/\t/evil.example.com": "", "https:x": "", "": "",
	} {
		upstreamtest.Equal(t, "<a"+want+"></a>", fmt.Sprint(A(href(address))), "%q", address)
	}
	for address, want := range map[string]bool{
		"/static/console.js?1": true, "data:image/png;base64,AAAA": true, "data:text/html;base64,AAAA": false, "https://example.com/x.js": false,
	} {
		upstreamtest.Equal(t, want, strings.Contains(fmt.Sprint(Img(src(address))), "src="), "%q is loaded", address)
	}
}

// No page has markup or an address that was made from data and not checked: the library escapes
// texts and attributes, but does not know their meaning.
func TestPages_CheckAddresses(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	calls := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && (f.Name.Name == "href" || f.Name.Name == "src") {
				continue // they check
			}
			ast.Inspect(declaration, func(node ast.Node) bool {
				call, ok := node.(*ast.CallExpr)
				if !ok {
					return true
				}
				called, ok := call.Fun.(*ast.Ident)
				trusting := []string{"Href", "Src", "Action", "FormAction", "Style", "StyleEl", "Raw", "Rawf"}
				attribute := ok && called.Name == "Attr" && !slices.Contains([]string{`"d"`, `"viewBox"`}, literal(call.Args[0]))
				if !ok || !attribute && !slices.Contains(trusting, called.Name) {
					return true
				}
				calls++
				for _, argument := range call.Args {
					if literal(argument) == "" {
						t.Errorf("%s: %s of something that is no constant: call href or src", set.Position(call.Pos()), called.Name)
					}
				}
				return true
			})
		}
	}
	if calls == 0 {
		t.Error("there is nothing to check")
	}
}

// literal returns the source of a constant text, "" for anything else.
func literal(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.BasicLit:
		return e.Value
	case *ast.BinaryExpr:
		if left, right := literal(e.X), literal(e.Y); left != "" && right != "" {
			return left + right
		}
	}
	return ""
}

// The headline is the worst problem.
func TestFindings_BeginWithTheWorst(t *testing.T) {
	well := func(change func(*admin.Readiness)) *admin.Readiness {
		r := &admin.Readiness{Ready: true, Configuration: &admin.ConfigurationState{}, Reports: []string{"a", "b"}}
		change(r)
		return r
	}
	now := time.Now()
	for _, test := range []struct {
		ready *admin.Readiness
		level admin.Level
		want  []string
	}{
		{&admin.Readiness{Ready: true, Configuration: &admin.ConfigurationState{}}, admin.Good, nil},
		{well(func(*admin.Readiness) {}), admin.Poor, []string{"2 reports to fix"}},
		{
			well(func(r *admin.Readiness) { r.Store = &admin.StoreHealth{} }), admin.Poor,
			[]string{"the store is unavailable, and each replica counts limits alone", "2 reports to fix"},
		},
		{
			well(func(r *admin.Readiness) { r.Configuration.Refused = &now }), admin.Bad,
			[]string{"the last configuration was refused", "2 reports to fix"},
		},
		{
			well(func(r *admin.Readiness) { r.Configuration.Refused, r.AuditProblem = &now, "full" }), admin.Bad,
			[]string{"the audit log cannot be written", "the last configuration was refused", "2 reports to fix"},
		},
		{
			well(func(r *admin.Readiness) {
				r.Configuration.Refused, r.Configuration.Loaded, r.Configuration.Teams = &now, now, map[string]string{"support": "kept"}
			}), admin.Bad,
			[]string{"team support runs on its previous file", "2 reports to fix"},
		},
		{
			well(func(r *admin.Readiness) {
				r.Configuration.Refused, r.Configuration.Loaded, r.Configuration.Teams = &now, now, map[string]string{"support": "out"}
			}), admin.Bad,
			[]string{"team support is left out", "2 reports to fix"},
		},
		{
			well(func(r *admin.Readiness) {
				r.Configuration.Refused, r.Configuration.Loaded, r.Configuration.Teams = &now, now, map[string]string{"a": "out", "b": "kept"}
			}), admin.Bad,
			[]string{"files of 2 teams are not in use", "2 reports to fix"},
		},
		{
			well(func(r *admin.Readiness) { r.Ready, r.Draining = false, true }), admin.Bad,
			[]string{"the gateway is stopping", "2 reports to fix"},
		},
		{well(func(r *admin.Readiness) { r.Ready = false }), admin.Bad, []string{"the gateway is starting", "2 reports to fix"}},
	} {
		a := findings(test.ready, nil)
		if a.level != test.level || !slices.Equal(a.clauses, test.want) {
			t.Errorf("got %v: %q, want %v: %q", a.level, a.clauses, test.level, test.want)
		}
	}
	if got := findings(&admin.Readiness{Ready: true, Configuration: &admin.ConfigurationState{}}, nil).headline(); got != "All is well" {
		t.Errorf("headline %q", got)
	}
}
