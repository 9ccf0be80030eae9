//go:build unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// The table is written by a run, which takes minutes. What can be known without one is that it has all rows.
func TestReadme_TableNamesEveryFault(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(proctest.Root(), "upstream", "README.md"))
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

func TestWriteTable_ReplacesTheTableAndNothingElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("before\n"+tableBegin+"old\n"+tableEnd+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it can be replaced again
		if err := writeTable(path, "new\n"); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "before\n" + tableBegin + "\nnew\n\n" + tableEnd + "after\n"; string(got) != want {
		t.Errorf("page = %q, want %q", got, want)
	}
}

func TestFaults_HaveDifferentNames(t *testing.T) {
	var names []string
	for _, f := range faults() {
		if slices.Contains(names, f.name) {
			t.Errorf("two faults are named %q", f.name)
		}
		names = append(names, f.name)
	}
}
