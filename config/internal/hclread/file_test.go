package hclread

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	if text := report.text(report.Diagnostics[maxOfFile], 0, false); len(text) > 200 {
		t.Error("a diagnostic quotes a line of 30 000 bytes")
	}
}

func TestWrite_QuotesAllLinesOfARange(t *testing.T) {
	r := New(testSchema(), Options{})
	r.Parse("x.hcl", []byte(strings.Repeat("# line\n", 1000)+"box {\n\twords = [\n\n    1 ] # here\n}\n"))
	b := r.Blocks("box")[0]
	b.Error(b.ValueRange("words"), "Wrong", "It is.")
	report := r.Finish()
	for mark, severity := range map[bool]string{false: "Error", true: "\x1b[31mError\x1b[0m"} {
		want := severity + ": Wrong\n\n  on x.hcl:1002:10, in box:\n1002: \twords = [\n      \t        ^\n1004:     1 ] # here\n\nIt is.\n\n"
		if diff := cmp.Diff(want, report.text(report.Diagnostics[0], 80, mark)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestWrite_ShowsNothingThatActsOnATerminal(t *testing.T) {
	r := New(testSchema(), Options{})
	r.Parse("x\x1b[2J\u202e.hcl", []byte("box {\r\n  words = [\"ä\u009b\u200b\", 7] # \xff\r\n}\r\n"))
	r.Error(r.Blocks("box")[0].ValueRange("words"), "Wrong\u202e", "It is\u009b.")
	report := r.Finish()
	text := report.text(report.Diagnostics[0], 0, false)
	if text != Printable(text) || !strings.Contains(text, "words = ") {
		t.Errorf("shown: %q", text)
	}
}
