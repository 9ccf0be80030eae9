package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program in place of the gateway cannot choose a file to read or remove.
func TestConsole_ReadsNoFileButALink(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	private := filepath.Join(filepath.Dir(os.TempDir()), "private")
	writeFile(t, filepath.Dir(private), "private", "hunter2")
	for answer, want := range map[string]string{
		`{"file":"promptweir-link-"}`:               "/\n",
		`{"file":"promptweir-link-gone"}`:           "run it as that user",
		`{"file":"../private"}`:                     "not like a gateway's admin listener",
		`{"file":"promptweir-link-/../../private"}`: "not like a gateway's admin listener",
		`{}`: "not like a gateway's admin listener",
		`no`: "not like a gateway's admin listener",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.URL.Path == "/-/link" {
				_, _ = io.WriteString(w, answer)
			}
		}))
		out, errs, _ := runHere(t, "console", "--admin", server.URL)
		server.Close()
		if !strings.Contains(out+errs, want) || strings.Contains(out, "hunter2") {
			t.Errorf("%s: %s%s, want %q", answer, out, errs, want)
		}
	}
	if _, err := os.Stat(private); err != nil {
		t.Error(err)
	}
}
