package publish

import (
	"fmt"
	"strings"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/files"
)

// maxFileReports bounds the reports of one upstream's files.
const maxFileReports = 20

// rejections returns the reports about definitions that are missing in the catalog or changed
// there, and about problems of files.
func rejections(g *snapshot.Generation, c *snapshot.Contents, slots []upstreamSlot) (reports []catalog.Report) {
	byLabel, complete := map[string]*admitted{}, map[string]bool{}
	for i := range g.Upstreams {
		u := &g.Upstreams[i]
		reports = append(reports, fileReports(u, g.ProblemsOf(i, c.States[i]))...)
		if why := c.States[i].Promptless; why != nil {
			reports = append(reports, promptless(u, why))
		}
		list := slots[i].list
		if list == nil {
			continue
		}
		reports = append(reports, list.reports...)
		_, complete[u.Name] = g.LatestList(i, c.States[i])
		byLabel[u.Name] = list
	}
	return append(reports, unmatchedBlocks(g, byLabel, complete)...)
}

// sameRejections reports whether the states of a snapshot and of its successor in the same
// generation lead to the same reports.
func sameRejections(before *snapshot.Snapshot, next *snapshot.Contents) bool {
	for i, state := range next.States {
		was := before.States[i]
		a, b := before.ProblemsOf(i, was), before.ProblemsOf(i, state)
		_, wasKnown := before.LatestList(i, was)
		_, isKnown := before.LatestList(i, state)
		if wasKnown != isKnown || was.Promptless != state.Promptless || len(a) != len(b) || len(a) > 0 && &a[0] != &b[0] {
			return false
		}
	}
	return true
}

// promptless returns the report that an upstream has no prompts.
func promptless(u *config.Upstream, why *upstream.Cause) catalog.Report {
	return catalog.Report{
		Kind: catalog.NoPrompts, Name: u.Name, Owners: []catalog.Owner{ownerOf(u)},
		Text: fmt.Sprintf("upstream %q (%s): %s", u.Name, u.Place, why),
	}
}

// fileReports returns a report for each broken file, and one report for all parts that are served as
// plain text.
func fileReports(u *config.Upstream, problems []files.Problem) (reports []catalog.Report) {
	report := func(kind catalog.Kind, block, finding, format string, args ...any) {
		reports = append(reports, catalog.Report{
			Kind: kind, Block: block, Name: u.Name, Owners: []catalog.Owner{ownerOf(u)}, Finding: finding,
			Text: fmt.Sprintf("upstream %q (%s) ", u.Name, u.Place) + fmt.Sprintf(format, args...),
		})
	}
	broken, unserved := 0, 0
	var first files.Problem
	for _, p := range problems {
		switch p.Severity {
		case files.Broken:
			if broken++; broken <= maxFileReports {
				report(catalog.BrokenFile, p.Place(), p.String(), "has a file that cannot be "+
					"served as written: %s", clause(p))
			}
		case files.Unserved:
			if unserved++; unserved == 1 {
				first = p
			}
		case files.Doubtful: // only the validate command reports these
		}
	}
	if more := broken - maxFileReports; more > 0 {
		report(catalog.BrokenFile, "", "more", "has %d more such files", more)
	}
	if unserved > 0 {
		report(catalog.PartlyServed, first.Place(), "", "serves %d parts of its files as plain "+
			"text, which have no meaning in a prompt; the first is %s",
			unserved, clause(first))
	}
	return reports
}

// clause returns a problem for use within a sentence.
func clause(p files.Problem) string { return strings.TrimSuffix(p.String(), ".") }
