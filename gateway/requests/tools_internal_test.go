package requests

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A search costs its caller, and the texts are others': 10 000 texts of this kind once took two minutes.
func TestMatching_CostsLittleForHostileTexts(t *testing.T) {
	text := strings.Repeat("xa", 2048)
	if allocs := testing.AllocsPerRun(10, func() { hasWord(text, "a") }); allocs > 0 {
		t.Errorf("looking for a word makes %v allocations", allocs)
	}
	for text, want := range map[string]bool{"xa xa": false, "xa-a": true, "éa a": true, "éa": false, "a": true, "xx": false, "": false} {
		upstreamtest.Equal(t, want, hasWord(text, "a"), "%q", text)
	}
	if got := queryWords(strings.Repeat("a b ", 200)); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("words that are repeated count each time: %q", got)
	}
	long := strings.Repeat("x", 1<<10)
	entries := []*catalog.Entry{{Name: "p", JSON: wire.Object{}.With("name", wire.Quote("p")).With("description", wire.Quote(long+" word")).JSON()}}
	if got := matching(t.Context(), entries, []string{"word"}); len(got) > 0 {
		t.Error("all of a description is searched")
	}
	if allocs := testing.AllocsPerRun(10, func() { matching(t.Context(), entries, []string{"word"}) }); allocs > 0 {
		t.Errorf("a definition is read again for each search: %v allocations", allocs)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := matching(ended, entries, []string{"p"}); len(got) > 0 {
		t.Error("it goes on when the client is gone")
	}
}
