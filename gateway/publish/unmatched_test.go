package publish_test

import (
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/gateway/snapshot/snapshottest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// unmatchedIn returns the texts of the reports about what matches nothing, without the places of blocks.
func unmatchedIn(s *snapshot.Snapshot) (texts []string) {
	for _, r := range append(s.Reports(), publish.Unmatched(s)...) {
		if r.Kind == catalog.Unmatched {
			before, after, _ := strings.Cut(r.Text, " (")
			_, after, _ = strings.Cut(after, ")")
			texts = append(texts, before+after)
		}
	}
	return texts
}

// A typo in a rule exposes nothing, or hides nothing. It is reported once the lists that it could be about are known.
func TestUnmatched_ReportsRulesThatMatchNoListedPrompt(t *testing.T) {
	billing := server("review_code", "invoice")
	m := run(t, `
hide "typo" { prompts = ["bililng.review_code"] }
hide "precaution" { prompts = ["*.debug_*"] }
hide "right" { prompts = ["billing.inv*"] }
`+team("eng", "", `
expose "reviews" {
  prompts = ["billing.reveiw_*", "billing.*"]
  to      = ["*"]
  limit { concurrency = 1 }
}
expose "not known" {
  prompts = ["gone.anything"]
  to      = ["*"]
}
hide "unfinished" { prompts = ["billing.wip_*", "*.wip_*", "billing.renamed", "billing.no_such"] }
prompt "billing.invoise" { title = "typo" }
prompt "billing.invoice" { name = "billing.renamed" }
`, "billing", "gone"), snapshottest.Upstreams{"billing": billing})
	want := []string{
		`the prompt block "billing.invoise" has no effect: offers no such prompt (the nearest is "billing.invoice"); correct or remove it`,
		`the pattern "billing.wip_*" of hide "unfinished" matches no prompt of team "eng": correct or remove it`,
		`the pattern "billing.no_such" of hide "unfinished" matches no prompt of team "eng": correct or remove it`,
		`the pattern "billing.reveiw_*" of expose "reviews" with its limit matches no prompt of team "eng" (the nearest is "billing.review_code"): correct or remove it`,
		`the pattern "bililng.review_code" of hide "typo" matches no prompt of any team (the nearest is "billing.review_code"): correct or remove it`,
		`the pattern "billing.inv*" of hide "right" matches no prompt of any team: correct or remove it`,
	}
	got := unmatchedIn(m.Current())
	for i := range got {
		if before, after, ok := strings.Cut(got[i], ` upstream "billing" (`); ok {
			_, after, _ = strings.Cut(after, ")")
			got[i] = before + after
		}
	}
	upstreamtest.Equal(t, want, got, "reports")

	billing.List(gatewaytest.Definitions("review_code", "invoice", "wip_x")...)
	upstreamtest.Eventually(t, "the pattern that matches now is no longer reported", func() bool {
		return !strings.Contains(strings.Join(unmatchedIn(m.Current()), "\n"), "wip_")
	})
}
