package hclread

import (
	"testing"
)

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
		"leek":     ".", // two typos in four letters
		"":         ".",
		"serve":    ".",
	} {
		if got := Suggest(name, known); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", name, got, want)
		}
	}
}
