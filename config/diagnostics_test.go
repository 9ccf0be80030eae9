package config

import (
	"path/filepath"
	"strings"
	"testing"
)

// written returns the diagnostics of one file as a person sees them.
func written(t *testing.T, content string) string {
	t.Helper()
	_, diags := Load(write(t, "x.hcl", content), options())
	if !diags.HasErrors() {
		t.Fatalf("no mistake in:\n%s", content)
	}
	var out strings.Builder
	if err := diags.Write(&out, 0, false); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestSnippetsShowMasksInPlaceOfSecrets(t *testing.T) {
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

func TestErrorsNameSummaryAndRemedyWithTheirPlace(t *testing.T) {
	dir := write(t, "docs.hcl", "team \"a\" {\n  upstream \"docs\" {\n    url = \"guides.example.com\"\n  }\n}")
	_, diags := Load(dir, options())
	want := filepath.Join(dir, "docs.hcl") + `:3: Invalid upstream URL; "guides.example.com" is not an http or https URL with a host; ` +
		`write it like "https://mcp.example.com/mcp".`
	if got := diags.Err().Error(); got != want {
		t.Errorf("Err() = %q, want %q", got, want)
	}
}

func TestNoDiagnosticsAreNoError(t *testing.T) {
	var none Diagnostics
	if none.Err() != nil || none.HasErrors() || none.Len() != 0 {
		t.Errorf("the zero value has %d diagnostics: %v", none.Len(), none.Err())
	}
}
