package hclread

import (
	"slices"
	"strings"
	"testing"
)

func TestParse_KeepsWhatStandsBeforeASyntaxError(t *testing.T) {
	r := New(testSchema(), Options{})
	r.Parse("x.hcl", []byte("team \"a\" {}\nteam \"b\" { = }\nteam c {}\n"))
	if got := r.Blocks("team"); len(got) != 1 || got[0].Label() != "a" {
		t.Errorf("%d blocks, want the one before the error", len(got))
	}
	if got := r.Labels("team"); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("Labels = %q, want all that the tokens declare", got)
	}
	if !r.Broken() {
		t.Error("the file is not broken")
	}
}

func TestFinish_BoundsWhatIsPrintedOfOneFile(t *testing.T) {
	r := New(testSchema(), Options{})
	r.Parse("x.hcl", []byte("box {}\nbox { words = [\""+strings.Repeat("1, ", 10_000)+"\"] }\n"))
	b := r.Blocks("box")[1]
	for range 10_000 {
		b.Error(b.ValueRange("words"), "Wrong", "It is.")
		b.Warning(b.ValueRange("words"), "Odd", "It is.")
	}
	report := r.Finish()
	if got := len(report.Diagnostics); got != 2*(maxOfFile+1) {
		t.Errorf("%d diagnostics, want %d of each severity and a word about the others", got, maxOfFile)
	}
	if _, files := report.Quote(report.Diagnostics[maxOfFile]); len(files["x.hcl"].Bytes) > 100 {
		t.Error("a diagnostic quotes a line of 30 000 bytes")
	}
}

// A file costs as much as its diagnostics' lines, however many of both there are.
func TestQuote_HasTheLinesOfTheDiagnosticOnly(t *testing.T) {
	r := New(testSchema(), Options{})
	r.Parse("x.hcl", []byte(strings.Repeat("# line\n", 1000)+"box {\n  words = [\n    1 ] # here\n}\n"+strings.Repeat("# line\n", 1000)))
	b := r.Blocks("box")[0]
	b.Error(b.ValueRange("words"), "Wrong", "It is.")
	report := r.Finish()
	shown, files := report.Quote(report.Diagnostics[0])
	if got, want := string(files["x.hcl"].Bytes), strings.Repeat("\n", 1001)+"  words = [\n    1 ] # here"; got != want {
		t.Errorf("the file is %q", got)
	}
	if got := string(shown.Subject.SliceBytes(files["x.hcl"].Bytes)); got != "[\n    1 ]" {
		t.Errorf("the diagnostic points at %q", got)
	}
}

func TestQuote_ShowsNothingThatActsOnATerminal(t *testing.T) {
	const path = "x\x1b[2J\u202e.hcl"
	r := New(testSchema(), Options{})
	r.Parse(path, []byte("box {\r\n  words = [\"ä\u009b\u200b\", 7] # \xff\r\n}\r\n"))
	r.Error(r.Blocks("box")[0].ValueRange("words"), "Wrong\u202e", "It is\u009b.")
	report := r.Finish()
	shown, files := report.Quote(report.Diagnostics[0])
	file := files[shown.Subject.Filename]
	if file == nil {
		t.Fatalf("the source is not found under %q", shown.Subject.Filename)
	}
	text := shown.Summary + shown.Detail + shown.Subject.Filename + strings.ReplaceAll(string(file.Bytes), "\r\n", "\n")
	if text != Printable(text) {
		t.Errorf("shown: %q", text)
	}
}
