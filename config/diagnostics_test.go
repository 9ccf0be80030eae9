package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// written returns the diagnostics of one file as a terminal shows them.
func written(t *testing.T, content string) string {
	t.Helper()
	_, diags := Load(write(t, "x.hcl", content), options())
	if !diags.HasErrors() {
		t.Fatalf("no mistake in:\n%s", content)
	}
	return printed(t, diags)
}

// An error names the attribute or the variable if it does not quote the line.
func TestWrite_NamesTheAttributeWhoseLineItDoesNotQuote(t *testing.T) {
	const notShown = ": (not shown: the line may have a secret)\n"
	for config, wants := range map[string][]string{
		"auth {\n  token \"ci\" {\n    sha256 = \"hunter2\"\n  }\n}":                                     {":3:14, in auth:\n   3" + notShown, "Invalid sha256\n"},
		"auth {\n  token \"ci\" { sha256 = \"hunter2\" }\n}":                                             {":2:25, in "},
		"auth {\n  token { sha256 = \"hunter2\" }\n}":                                                    {":2:3, in ", "Write token \"NAME\" { … }."},
		"team \"a\" { bad = \"hunter2\" }":                                                               {":1:12, in ", "team.bad does not exist"},
		"gateway { cursor_keys = [\"hunter2\"] }":                                                        {":1:26, in ", "Invalid cursor_keys\n"},
		"gateway {\n  cursor_keys = [<<EOT\nhunter2\nEOT\n  ]\n}":                                        {":2:18, in "},
		"team \"a\" {\n  upstream \"u\" {\n    url = \"https://u\"\n    env { A = \"hunter2\" }\n  }\n}": {":4:5, in ", "env is an attribute"},
		"team \"a\" {\n  upstream \"u\" { url = \"https://me:hunter2@u.example.com\" }\n}":               {":2:24, in ", "Invalid upstream URL\n"},
		"gateway {\n  cursor_keys = []\n  cursor_keys = [\"hunter2\"]\n}":                                {":3:3, in ", `The argument "cursor_keys" was already set`},
		"team \"a\" {\n  upstream \"u\" {\n    headers = { A = \"hunter2\" B\n":                          {"3" + notShown, "The line begins with headers."},
		"team \"a\" {\n  \"env\" = { A = \"hunter2\" }\n}":                                               {"2" + notShown, "The line begins with env."},
		"team \"a\" {\n  members = [\"hunter2]\n}":                                                       {":2:23, in ", "The text does not end in its line; write the missing \", or \\n for a line break. The line begins with members."},
	} {
		got := written(t, config)
		isMissing := func(want string) bool { return !strings.Contains(got, want) }
		if strings.Contains(got, "hunter2") || slices.ContainsFunc(wants, isMissing) {
			t.Errorf("got:\n%s\nwant in it:\n%q", got, wants)
		}
	}
}

// One mistake that a parser or the grants trip over several times is one report, with what it follows from.
func TestLoad_ReportsOneCauseOnce(t *testing.T) {
	const grants = "allow \"payments\" {\n  env = [\"*\"]\n  hosts = [\"*\"]\n  prefixes = [\"pay\"]\n}\n"
	upstream := "  upstream %q {\n    url = \"https://b.example.com/mcp\"\n    headers = { A = env(\"A\", \"\") }\n    prefix = \"pay\"\n  }\n"
	for text, want := range map[string]string{
		"team \"paymnts\" {\n" + fmt.Sprintf(upstream+upstream, "b", "c") + "}\n":   `No allow block grants anything to team "paymnts", which uses what needs a grant (6 times). Did you mean "payments"?`,
		"team “a” {\n  upstream “b” { url = “https://b.example.com/mcp” }\n}\n":     `This is a curly quote; write " in its place, and in the place of all others of the file. The line begins with team.`,
		"team \"a {\n  upstream \"b\" { url = \"https://b.example.com/mcp\" }\n}\n": "The text does not end in its line; write the missing \", or \\n for a line break. The line begins with team.",
	} {
		_, diags := Load(write(t, "allow.hcl", grants, "x.hcl", text), options())
		var details []string
		for _, d := range diags.All() {
			if d.Severity == SeverityError {
				details = append(details, d.Detail)
			}
		}
		if len(details) != 1 || details[0] != want {
			t.Errorf("%s: %q, want %q", text, details, want)
		}
	}
}

// spread puts each attribute of a nested block on a line of its own.
func spread(content string) string {
	return strings.NewReplacer("{ ", "{\n", " }", "\n}").Replace(content)
}

func TestWrite_QuotesNoAttributeThatMayBeASecret(t *testing.T) {
	for _, block := range []string{`team "a" { upstream "u" { %s } }`, `team "a" { %s }`, `auth { token "a" { %s } }`, `team "a" { upstream "u" { tls { %s } } }`} {
		for _, name := range []string{"tokens", "client_secret", "key", "Headers", "evn", "sha265", "token_sha256", "key_fiel", "breaker", "pat", "pass", "secret", "password", "passwd", "bearer", "api_key", "cookie", "credential", "header"} {
			if got := written(t, spread(strings.Replace(block, "%s", name+` = "hunter2"`, 1))); strings.Contains(got, "hunter2") {
				t.Errorf("the value shows:\n%s", got)
			}
		}
	}
	for name, block := range map[string]string{
		`member = ["user:ann"]`: `team "a" { %s }`, `prefx = "b"`: `team "a" { upstream "u" { %s } }`, `timout = "5s"`: `team "a" { upstream "u" { %s } }`,
		`public_ulr = "https://a"`: `gateway { %s }`,
	} {
		if got := written(t, spread(strings.Replace(block, "%s", name, 1))); !strings.Contains(got, name) {
			t.Errorf("%s cannot be a secret, and does not show:\n%s", name, got)
		}
	}
	if got := written(t, "gateway {\npublic_ulr = \"https://u:hunter2@a\"\n}"); strings.Contains(got, "hunter2") {
		t.Errorf("the password in the URL shows:\n%s", got)
	}
	for _, block := range []string{"upstrem \"u\" {\n  headers = {}\n}", "headers {\n  A = 1\n}"} {
		header, _, _ := strings.Cut(block, "\n")
		if got := written(t, "team \"a\" {\n"+block+"\n}\n"); !strings.Contains(got, "   2: "+header+"\n") {
			t.Errorf("the header of the block does not show:\n%s", got)
		}
	}
}

func TestWrite_QuotesNoLineOfAFileThatDoesNotParse(t *testing.T) {
	for _, line := range []string{
		`url = "https://u:hunter2@h.example.com" = 3`,
		`url = https://u:hunter2@h.example.com`,
		`url = "https://${x}:hunter2@h.example.com" }}`,
		`headers = { Authorization = Bearer hunter2 }`,
		`"headers": { "Authorization": "Bearer hunter2" }`,
		`hunter2 == 1`,
		`oauth { client_secret "hunter2" }`,
		`headers = { A = "hunter2", B = ` + strings.Repeat("[", 101),
	} {
		got := written(t, "team \"a\" {\n  upstream \"b\" {\n    "+line+"\n  }\n}\n")
		if strings.Contains(got, "hunter2") || !strings.Contains(got, "x.hcl:3:") {
			t.Errorf("%s: %s", line, got)
		}
	}
}

// One error has one report, in a sentence of this package, with its line and a remedy.
func TestLoad_ExplainsOneErrorOnce(t *testing.T) {
	for line, remedy := range map[string]string{
		`timeout: "5s"`:                         `neither an attribute nor a block; write NAME = VALUE`,
		`timeout – "5s"`:                        "Remove it, or write text in quotes.",
		"timeout\u00a0= \"5s\"":                 "Remove it, or write text in quotes.",
		"timeout = `5s`":                        `Write text between two ".`,
		`timeout = "5s";`:                       "Use newlines to separate arguments",
		`timeout = 5s`:                          "write text in quotes and each attribute in a line of its own",
		`timeout = 5 | 6`:                       "|| for or",
		`tls { ca_file = "a", key_file = "b" }`: "write each attribute in a line of its own, and the closing brace after the last",
		`command = ["a" "b"]`:                   "a comma between two, and ] after the last",
		`timeout =`:                             "This is no value; write text in quotes",
		`timeout = 3 + "x"`:                     "a number is required. Operators take numbers",
		`timeout = "${["5"]}s"`:                 "write the elements of a list one by one",
		`timeout = 1 / 0`:                       "at most 400 digits.",
		`rate = "fast"`:                         "rate must be a number; write it in digits.",
		`headers = ["A=b"]`:                     `write headers = { NAME = "…" }`,
		`gateway {}`:                            "gateway belongs at the top level of a file; move it there",
		`headers = { A = "${env(\"X\")}" }`:     "Remove it, or write text in quotes.",
		`timeout = a::b("x")`:                   "no functions in namespace",
		`"timeout" = "5s"`:                      "write NAME = VALUE",
		`url = "https://c.example.com/mcp"`:     "Remove one of them.",
		`headers = { A => "b" }`:                "write NAME = VALUE",
		`headers = { a.b = "c" }`:               `write "A.B" = VALUE`,
		`headers = { A = "b" C = "d" }`:         "a comma between two",
		`headers = { A = "C:\Users" }`:          `write \\ for a backslash`,
		`headers = { A = "it\'s" }`:             `write \\ for a backslash`,
		`headers = { A = "%{ x }" }`:            "write %%{ for this text",
		`headers = { A = "${a b}" }`:            "There is more than one value in this ${ }",
		`headers = { A = env() }`:               "Add it.",
		`headers = { A = env(["B"]) }`:          `write text in quotes, env("NAME") or file("PATH")`,
		`hide "a${"b"}" {}`:                     "A label is plain text",
		`when = prompt.title = "b"`:             "two values are compared with ==",
		`when = prompt.title == "b" and true`:   "joined by &&",
		`when = true & false`:                   "&& for and",
		`when = prompt.title < 5 ? true`:        "write CONDITION ? A : B",
		`when = contains("a")`:                  "Add it.",
		`when = "prompt.title"`:                 "write a comparison",
		"\xff\xfet\x00":                         "save it in that encoding",
	} {
		block := "upstream \"u\""
		if strings.HasPrefix(line, "when") {
			block = "hide \"h\""
		}
		text := fmt.Sprintf("team \"a\" {\n%s {\n%s\nurl = \"https://u.example.com/mcp\"\n}\n}\n", block, line)
		if block != "upstream \"u\"" {
			text = strings.Replace(text, "url = \"https://u.example.com/mcp\"", "prompts = [\"*\"]", 1)
		}
		path := filepath.Join(t.TempDir(), "a.hcl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, diags := Load(path, options())
		if all := diags.All(); len(all) != 1 || !strings.Contains(all[0].Detail, remedy) || all[0].Range == nil {
			t.Errorf("%s: %q, want one error with the remedy %q", line, diags.lines(hcl.DiagError), remedy)
		}
	}
}

func TestNewDiagnostics_ShowTheirLines(t *testing.T) {
	diags := NewDiagnostics([]Finding{
		{Path: "a.md", Line: 3, Source: "three", Summary: "One", Detail: "Do it."},
		{Path: "a.md", Line: 1, Source: "one", Summary: "Two", Detail: "Do that.", IsWarning: true},
		{Path: "b.md", Summary: "Three", Detail: "The whole file."},
		{Path: "c.md", Line: 1 << 20, Source: "far", Summary: "Four", Detail: "Far below."},
		{Summary: "Five", Detail: "Nowhere."},
	})
	if !diags.HasErrors() || len(diags.Warnings()) != 1 {
		t.Errorf("errors %v, warnings %q", diags.Err(), diags.Warnings())
	}
	text := printed(t, diags)
	for _, want := range []string{
		"on a.md:3:\n   3: three\n", "on a.md:1:\n   1: one\n", "b.md: The whole file.", "on c.md:1048576:\n1048576: far\n", "\nNowhere.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// words returns the tokens of a file without the white space between them.
func words(content []byte) (all []string) {
	tokens, _ := hclsyntax.LexConfig(content, "a.hcl", hcl.InitialPos)
	for _, token := range tokens {
		if token.Type != hclsyntax.TokenNewline || len(token.Bytes) > 1 {
			all = append(all, string(bytes.TrimSpace(token.Bytes)))
		}
	}
	return all
}

func FuzzFormat(f *testing.F) {
	fixtures, err := filepath.Glob("testdata/*/*.hcl")
	if err != nil || len(fixtures) == 0 {
		f.Fatal("no fixtures", err)
	}
	for _, path := range fixtures {
		content, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if _, diags := hclsyntax.ParseConfig(content, "a.hcl", hcl.InitialPos); diags.HasErrors() {
			return
		}
		after := canonicalForm(content)
		if diff := cmp.Diff(words(content), words(after)); diff != "" {
			t.Errorf("formatting changes more than white space (-before +after):\n%s", diff)
		}
		if again := canonicalForm(after); !bytes.Equal(again, after) {
			t.Errorf("%q becomes %q, and that %q", content, after, again)
		}
	})
}

func TestLoad_AcceptsAPlatformBlockWhereTheRemedySendsIt(t *testing.T) {
	for _, block := range []string{"auth { anonymous = true }", "gateway {}", "admin {}"} {
		const team = "team \"a\" {\n  upstream \"u\" { url = \"https://u.example.com\" }\n%s}\n%s"
		for _, written := range []string{fmt.Sprintf(team, "  upstream \"v\" {\n    command = [\"v\"]\n"+block+"\n  }\n", ""), fmt.Sprintf(team, "", block+"\n")} {
			if _, diags := Load(write(t, "teams/a.hcl", written), options()); !strings.Contains(fmt.Sprint(diags.Err()), "gateway.hcl") {
				t.Errorf("%s: %v", written, diags.Err())
			}
		}
		if _, diags := Load(write(t, "teams/a.hcl", fmt.Sprintf(team, "", ""), "gateway.hcl", block+"\n"), options()); diags.HasErrors() {
			t.Errorf("%s in gateway.hcl: %v", block, diags.Err())
		}
	}
}
