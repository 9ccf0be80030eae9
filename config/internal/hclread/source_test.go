package hclread

import (
	"slices"
	"strings"
	"testing"
)

func TestParse_RefusesDeepNesting(t *testing.T) {
	n := maxFileSize / 2
	for _, content := range []string{
		"a = " + strings.Repeat("[", n),
		"a = " + strings.Repeat("!", n) + "true",
		"a = " + strings.Repeat("-", n) + "1",
		"a = " + strings.Repeat("1+", n) + "1",
		"a = " + strings.Repeat("b ? c : ", n/8) + "1",
		"a = \"" + strings.Repeat("${\"", n/4),
		"a = b" + strings.Repeat("[*]", n/4),
		"a = b" + strings.Repeat("[0]", n/4),
		"a = b" + strings.Repeat(".c", n/4),
		strings.Repeat("a {\n", n/8),
	} {
		r := New(testSchema(), Options{})
		r.Parse("x.hcl", []byte(content))
		r.Check()
		if !r.Finish().Diagnostics.HasErrors() {
			t.Errorf("%.20s… is accepted", content)
		}
	}
}

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
