package catalog_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/gateway/catalog"
)

func TestCandidates_AreTheSourcesThatMayExposeAName(t *testing.T) {
	sources := []catalog.Source{
		{Upstream: "bills", Team: "payments", Prefix: "billing"},
		{Upstream: "bills2", Team: "payments", Prefix: "billing"},
		{Upstream: "bare", Team: "search", Prefix: ""},
	}
	candidates := func(name string, want ...string) {
		t.Helper()
		var got []string
		for _, c := range catalog.Candidates(sources, ".", name) {
			got = append(got, c.Source.Upstream+" "+c.Own)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Candidates(%q) (-want +got):\n%s", name, diff)
		}
	}
	candidates("billing.review", "bills review", "bills2 review")
	candidates("review", "bare review")
	candidates("billing", "bare billing")
	candidates("other.review", "bare other.review")
	candidates("billing.") // a prompt without a name of its own
}
