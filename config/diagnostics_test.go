package config

import (
	"bytes"
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

// What an error says in place of a line that it does not quote.
func TestWrite_NamesTheAttributeWhoseLineItDoesNotQuote(t *testing.T) {
	const notShown = ": (not shown: the line may have a secret; see column "
	for config, wants := range map[string][]string{
		"auth {\n  token \"ci\" {\n    sha256 = \"hunter2\"\n  }\n}":                                     {"line 3, in auth:\n   3" + notShown + "14)\n", "Invalid sha256\n"},
		"auth {\n  token \"ci\" { sha256 = \"hunter2\" }\n}":                                             {"2" + notShown + "25)"},
		"auth {\n  token { sha256 = \"hunter2\" }\n}":                                                    {"2" + notShown + "3)", "Write token \"NAME\" { … }."},
		"team \"a\" { bad = \"hunter2\" }":                                                               {"1" + notShown + "12)", "team.bad does not exist"},
		"gateway { cursor_keys = [\"hunter2\"] }":                                                        {"1" + notShown + "26)", "Invalid cursor_keys\n"},
		"gateway {\n  cursor_keys = [<<EOT\nhunter2\nEOT\n  ]\n}":                                        {"2" + notShown + "18)"},
		"team \"a\" {\n  upstream \"u\" {\n    url = \"https://u\"\n    env { A = \"hunter2\" }\n  }\n}": {"4" + notShown + "5)", "env is an attribute"},
		"team \"a\" {\n  upstream \"u\" { url = \"https://me:hunter2@u.example.com\" }\n}":               {"2" + notShown + "24)", "Invalid upstream URL\n"},
		"gateway {\n  cursor_keys = []\n  cursor_keys = [\"hunter2\"]\n}":                                {"3" + notShown + "3)", `The argument "cursor_keys" was already set`},
		"team \"a\" {\n  upstream \"u\" {\n    headers = { A = \"hunter2\" B\n":                          {"3" + notShown, "The line begins with headers."},
		"team \"a\" {\n  \"env\" = { A = \"hunter2\" }\n}":                                               {"2" + notShown, "The line begins with env."},
		"team \"a\" {\n  members = [\"hunter2]\n}":                                                       {"2" + notShown + "23)", "The text does not end in its line; write the missing \", or \\n for a line break. The line begins with members."},
	} {
		got := written(t, config)
		isMissing := func(want string) bool { return !strings.Contains(got, want) }
		if strings.Contains(got, "hunter2") || slices.ContainsFunc(wants, isMissing) {
			t.Errorf("got:\n%s\nwant in it:\n%q", got, wants)
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

func TestDiagnostics_ZeroValueIsEmpty(t *testing.T) {
	var none Diagnostics
	if none.Err() != nil || none.HasErrors() || len(none.report.Diagnostics) != 0 {
		t.Errorf("the zero value has %d diagnostics: %v", len(none.report.Diagnostics), none.Err())
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
		if strings.Contains(got, "hunter2") || !strings.Contains(got, "x.hcl line 3") {
			t.Errorf("%s: %s", line, got)
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
		"on a.md line 3:\n   3: three\n", "on a.md line 1:\n   1: one\n", "b.md: The whole file.", "c.md:1048576: Far below.", "\nNowhere.",
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
