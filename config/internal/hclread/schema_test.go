package hclread

import (
	"strings"
	"testing"
)

func TestCheck_SaysWhyANameIsWrong(t *testing.T) {
	for item, want := range map[string]string{
		`nam = "x"`:                          `Unknown attribute; box.nam does not exist. Did you mean "name"?`,
		`zzzzzz = "x"`:                       `Unknown attribute; box.zzzzzz does not exist; there are `,
		`lid = "x"`:                          `Unexpected attribute; lid is a block`,
		"name {}":                            `Unexpected block; name is an attribute`,
		`lid "x" {}`:                         `Unexpected label; Write lid { … } without a label.`,
		"lid {}\nlid {}":                     `Duplicate block; There is already a lid block at x.hcl:2; merge the two.`,
		"label {}":                           `Misplaced block; label belongs in a team block; move it there.`,
		"lid { color = 1 }":                  `Unknown attribute; lid.color does not exist. Did you mean "colour"?`,
		"lid {\n}\n}\nteam {":                `One label needed; Write team "NAME" { … }.`,
		"}\nteam \"a\" {\n}\nzzzzz {\nx = 1": `Unknown block; zzzzz does not exist; there are box, `,
	} {
		r := New(testSchema(), Options{})
		r.Parse("x.hcl", []byte("box {\n"+item+"\n}\n"))
		r.Check()
		if got := r.Finish().Diagnostics.Error(); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", item, got, want)
		}
	}
}

func TestLacks_IsFalseForAMisspeltAttribute(t *testing.T) {
	b := box(t, `nam = "x"`)
	if b.Lacks("name") {
		t.Error("Lacks is true for name, which is only misspelt")
	}
	if !b.Lacks("size") {
		t.Error("Lacks is false for size, which is absent")
	}
}

func TestSuggest_NamesTheNearest(t *testing.T) {
	known := []string{"init", "lock", "list", "validate", "explain"}
	for name, want := range map[string]string{
		"lsit":     `. Did you mean "list"?`, // and not init, which has as many letters in other places
		"lits":     `. Did you mean "list"?`,
		"ilst":     `. Did you mean "list"?`,
		"vaildate": `. Did you mean "validate"?`,
		"explian":  `. Did you mean "explain"?`,
		"inti":     `. Did you mean "init"?`,
		"li":       ".",
		"":         ".",
		"serve":    ".",
	} {
		if got := Suggest(name, known); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", name, got, want)
		}
	}
}
