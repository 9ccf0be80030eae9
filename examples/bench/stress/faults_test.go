package main

import (
	"os"
	"regexp"
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
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \|`).FindAllStringSubmatch(written, -1) {
		got = append(got, row[1])
	}
	for _, f := range faults() {
		want = append(want, f.name)
	}
	if diff := cmp.Diff(want, got[min(2, len(got)):]); diff != "" { // without the heading and the line below it
		t.Errorf("faults in the table differ from those of the rig (-rig +table); run make faults:\n%s", diff)
	}
}
