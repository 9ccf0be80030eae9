package hclread

import (
	"strings"
	"testing"
)

func TestMasked_ShowsNothingThatActsOnATerminal(t *testing.T) {
	const path = "x\x1b[2J\u202e.hcl"
	r := New(testSchema(), Options{})
	r.Parse(path, []byte("box {\r\n  words = [\"ä\u009b\u200b\", 7\xff]\r\n}\r\n"))
	b := r.Blocks("box")
	if len(b) != 0 {
		t.Fatal("the file is sound")
	}
	r.Error(r.sources[0].tokens[0].Range, "Wrong\u202e", "It is\u009b.")
	for _, d := range r.Finish().Diagnostics {
		shown, files := Report{sources: r.byPath}.Masked(d)
		file := files[shown.Subject.Filename]
		if file == nil {
			t.Fatalf("the source is not found under %q", shown.Subject.Filename)
		}
		text := shown.Summary + shown.Detail + shown.Subject.Filename + strings.ReplaceAll(string(file.Bytes), "\r\n", "\n")
		if text != Printable(text) {
			t.Errorf("shown: %q", text)
		}
	}
}
