package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The table is written by a run, which takes minutes. What can be known without one is that it has all rows.
func TestReadme_TableNamesEveryFault(t *testing.T) {
	text, err := os.ReadFile("../../../upstream/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), tableBegin)
	written, _, end := strings.Cut(rest, tableEnd)
	if !ok || !end {
		t.Fatalf("upstream/README.md has no lines %q and %q", tableBegin, tableEnd)
	}
	var got, want []string
	_, rows, _ := strings.Cut(written, " --- |\n")
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \|`).FindAllStringSubmatch(rows, -1) {
		got = append(got, strings.Split(row[1], "; ")...)
	}
	for _, f := range faults() {
		want = append(want, f.name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults in the table differ from those of the rig (-rig +table); run make faults:\n%s", diff)
	}
}
