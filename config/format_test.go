package config

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

func TestFormat_ChangesWhiteSpaceOnly(t *testing.T) {
	dir := write(t,
		"gateway.hcl", "# The platform's.\ngateway {\nlisten=\"127.0.0.1:1\"   # here\n  page_size   = 7\n}\n",
		"teams/eng.hcl", "team \"eng\" {}\n",
		"_draft.hcl", "a=1\n", "promptweir.lock.hcl", "a=1\n",
	)
	files, diags := Format(dir)
	if len(diags.report.Diagnostics) > 0 {
		t.Fatal(diags.Err())
	}
	got := map[string]string{}
	for _, f := range files {
		if f.Changed() {
			got[filepath.Base(f.Path)] = string(f.After)
		}
	}
	want := map[string]string{"gateway.hcl": "# The platform's.\ngateway {\n  listen    = \"127.0.0.1:1\" # here\n  page_size = 7\n}\n"}
	if diff := cmp.Diff(want, got); diff != "" || len(files) != 2 {
		t.Errorf("%d files (-want +got):\n%s", len(files), diff)
	}
}

func TestFormat_LeavesOutFilesThatDoNotParse(t *testing.T) {
	files, diags := Format(write(t, "a.hcl", "team {\n", "b.hcl", "c=1\n"))
	if !diags.HasErrors() || len(files) != 1 || filepath.Base(files[0].Path) != "b.hcl" {
		t.Errorf("files %v, %v", files, diags.Err())
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
