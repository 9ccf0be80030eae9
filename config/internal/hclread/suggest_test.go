package hclread_test

import (
	"testing"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

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
		if got := hclread.Suggest(name, known); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", name, got, want)
		}
	}
}
