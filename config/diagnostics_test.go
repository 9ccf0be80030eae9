package config

import (
	"bytes"
	"os"
	"path/filepath"
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

func TestWrite_MasksSecretsInSnippets(t *testing.T) {
	for name, test := range map[string]struct{ config, want string }{
		"in a line of its own": {
			"auth {\n  token \"ci\" {\n    sha256 = \"hunter2\"\n  }\n}",
			"line 3, in auth:\n   3:     sha256 = (sensitive)\n",
		},
		"in a block on one line": {
			"auth {\n  token \"ci\" { sha256 = \"hunter2\" }\n}",
			"   2:   token \"ci\" { sha256 = (sensitive) }\n",
		},
		"in one of several lines": {
			"team \"a\" {\n  upstream \"u\" {\n    url = \"https://u\"\n    headers = {\n      A = \"ok\"\n      Host = \"hunter2\"\n    }\n  }\n}",
			"   6:       (sensitive)\n",
		},
		"beside the mistake": {
			"team \"a\" { bad = \"hunter2\" }",
			"   1: team \"a\" { bad = (sensitive) }\n",
		},
		"before the mistake": {
			"gateway { cursor_keys = [\"hunter2\"] }",
			"   1: gateway { cursor_keys = (sensitive) }\n",
		},
		"in a file that does not parse": {
			"team \"a\" {\n  upstream \"u\" {\n    headers = { A = \"hunter2\" B\n",
			"   3:     headers = (sensitive)\n",
		},
		"as a block": {
			"team \"a\" {\n  upstream \"u\" {\n    url = \"https://u\"\n    env { A = \"hunter2\" }\n  }\n}",
			"   4:     env (sensitive)\n",
		},
		"under a quoted name": {
			"team \"a\" {\n  \"env\" = { A = \"hunter2\" }\n}",
			"   2:   \"env\" = (sensitive)\n",
		},
		"under a wrong name": {
			"auth {\n  token \"ci\" {\n    sha255 = \"hunter2\"\n    sha256 = sha256(\"x\")\n  }\n}",
			"   3:     sha255 = (sensitive)\n",
		},
		"with an address": {
			"team \"a\" {\n  upstream \"u\" { url = \"https://me:hunter2@u.example.com\" }\n}",
			"   2:   upstream \"u\" { url = (sensitive) }\n",
		},
		"in a heredoc": {
			"gateway {\n  cursor_keys = [<<EOT\nhunter2\nEOT\n  ]\n  page_size = 0\n}",
			"   3: (sensitive)\n",
		},
		"in a variable of an expression": {
			"team \"a\" {\n  upstream \"u\" {\n    url = \"https://u\"\n    headers = { for k, v in { a = \"hunter2\" } : k => v + 1 }\n  }\n}",
			"   4:     headers = (sensitive)\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := written(t, test.config)
			if strings.Contains(got, "hunter2") || !strings.Contains(got, test.want) {
				t.Errorf("got:\n%s\nwant in it:\n%s", got, test.want)
			}
		})
	}
}

// spread puts each attribute of a nested block on a line of its own.
func spread(content string) string {
	return strings.NewReplacer("{ ", "{\n", " }", "\n}").Replace(content)
}

func TestWrite_ShowsAMisspeltAttributeOnlyIfItIsNotASecret(t *testing.T) {
	const secret = "hunter2"
	for content, shows := range map[string]bool{
		`team "a" { membres = ["user:hunter2@example.com"] }`:                        true,
		`gateway { lisen = "hunter2:80" }`:                                           true,
		`team "a" { upstream "u" { tiemout = "hunter2" } }`:                          true,
		`auth { anonymus = "hunter2" }`:                                              true,
		`team "a" { member = env("hunter2") }`:                                       true, // a name
		`team "a" { upstream "u" { header = { A = "hunter2" } } }`:                   false,
		`team "a" { upstream "u" { evn = { A = "hunter2" } } }`:                      false,
		`team "a" { upstream "u" { Headers = { A = "hunter2" } } }`:                  false,
		`gateway { cursor_key = ["hunter2"] }`:                                       false,
		`auth { token "a" { sha265 = "hunter2" } }`:                                  false,
		`team "a" { upstream "u" { tls { key_fiel = "hunter2" } } }`:                 false,
		`team "a" { upstream "u" { tls { ca_fiel = "-----BEGIN hunter2" } } }`:       false,
		`team "a" { upstream "u" { ulr = "https://me:hunter2@u.example.com/mcp" } }`: false,
		`team "a" { upstream "u" { ulr = "https://u.example.com/mcp?k=hunter2" } }`:  false,
		`team "a" { url = "https://u.example.com/mcp?k=hunter2" }`:                   false,
		`team "a" { url = "https://hunter2.example.com/mcp" }`:                       true,
		`team "a" { upstream "u" { breaker = "hunter2" } }`:                          false,
		`team "a" { upstream "u" { rety = "hunter2" } }`:                             false,
		`admin { token_sha256 = "hunter2" }`:                                         false,
		`team "a" { upstream "u" { lock = "hunter2" } }`:                             false,
	} {
		if got := written(t, spread(content)); strings.Contains(got, secret) != shows {
			t.Errorf("the value shows: %t, want %t:\n%s", !shows, shows, got)
		}
	}
}

func TestWrite_MasksWhateverIsNamedLikeASecret(t *testing.T) {
	for _, block := range []string{`team "a" { upstream "u" { %s } }`, `team "a" { %s }`, `auth { token "a" { %s } }`, `team "a" { upstream "u" { tls { %s } } }`} {
		for _, name := range []string{
			"token", "tokens", "bearer", "bearer_token", "secret", "secrets", "client_secret", "password", "passwd", "pwd",
			"key", "api_key", "apikey", "auth", "authorization", "oauth", "credential", "credentials", "header", "cookie",
			"private_key", "hash", "sha", "environment", "envs", "username", "user",
		} {
			if got := written(t, spread(strings.Replace(block, "%s", name+` = "hunter2"`, 1))); strings.Contains(got, "hunter2") {
				t.Errorf("the value shows:\n%s", got)
			}
		}
	}
}

func TestDiagnostics_ZeroValueIsEmpty(t *testing.T) {
	var none Diagnostics
	if none.Err() != nil || none.HasErrors() || len(none.report.Diagnostics) != 0 {
		t.Errorf("the zero value has %d diagnostics: %v", len(none.report.Diagnostics), none.Err())
	}
}

func TestWrite_MasksSecretsInFilesThatDoNotParse(t *testing.T) {
	for _, line := range []string{
		`url = "https://u:hunter2@h.example.com" = 3`,
		`url = "https://u:hunter2@h.example.com`,
		`url = https://u:hunter2@h.example.com`,
		`url = "https://${x}:hunter2@h.example.com" }}`,
		`url = "https://${env("X")}:hunter2@h.example.com" = =`,
		`url = "https://u:hun/ter@hunter2@h.example.com" = =`,
		`urls = ["https://u:hunter2@h.example.com" "https://b"]`,
		`uri = "https://h.example.com?key=hunter2" = 3`,
		`header = { Authorization = "Bearer hunter2" } =`,
		`HEADERS = { Authorization = "Bearer hunter2" } =`,
		`headers = { Authorization = "Bearer hunter2`,
		`headers = { Authorization = Bearer hunter2 }`,
		`"headers": { "Authorization": "Bearer hunter2" }`,
		`header { Authorization = "Bearer hunter2" = }`,
		`env = { A = "hunter2" B = 3 }`,
		`oauth { client_secret "hunter2" }`,
		`oauth { clientsecret = "hunter2" = }`,
		`tls { key_file = "hunter2" = }`,
		`headers = { A = "hunter2", B = ` + strings.Repeat("[", 101),
	} {
		got := written(t, "team \"a\" {\n  upstream \"b\" {\n    "+line+"\n  }\n}\n")
		if strings.Contains(got, "hunter2") {
			t.Errorf("%s shows in:\n%s", line, got)
		}
	}
	// What is no secret still shows where the mistake is.
	if got := written(t, "team \"a\" {\n  members = [\"user:bob\" \"user:eve\"]\n}\n"); !strings.Contains(got, `2:   members = ["user:bob" "user:eve"]`) {
		t.Errorf("the line does not show in:\n%s", got)
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
