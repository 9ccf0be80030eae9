package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/files"
)

// maxFileReports bounds the reports of one upstream's files.
const maxFileReports = 20

// readFiles takes the lists of upstreams without a server from their files, which are there whether
// or not anything runs.
func (g *Generation) readFiles(ctx context.Context) {
	for i, read := range files.Read(ctx, g.Upstreams) {
		u := &g.Upstreams[i]
		if u.Files == nil {
			continue
		}
		problems := read.List.Problems
		if problem, ok := errors.AsType[files.Problem](read.Err); ok {
			// Clipped, or they could become problems of the list, too.
			problems = append(slices.Clip(problems), problem)
		} else if read.Err == nil {
			g.files[u.Name] = read.List
			g.saved[u.Name] = List{Definitions: read.List.Definitions}
		}
		g.fileProblems[u.Name] = problems
	}
}

// Text returns a hash of what a get of an upstream's prompt returns, whatever its arguments are;
// empty where that is unknown, as it is of all servers and of connectors that run.
func (g *Generation) Text(label, own string) string {
	if prompt := g.FilePrompt(label, own); prompt != nil {
		return prompt.Text
	}
	return ""
}

// FilePrompt returns an upstream's prompt that is in a file; nil for another one, and of connectors
// that run.
func (g *Generation) FilePrompt(label, own string) *files.Prompt {
	if list := g.files[label]; list != nil {
		return list.Prompt(own)
	}
	return nil
}

// Files returns the list from which gets of an upstream's prompts are answered that are in files;
// nil for another upstream.
func (s *Snapshot) Files(label string) *files.List {
	if i, known := s.index[label]; known {
		return s.States[i].Files
	}
	return nil
}

// FileProblems returns what was found in the files of upstreams without a server.
func (s *Snapshot) FileProblems() (all []files.Problem) {
	for i, state := range s.States {
		all = append(all, s.problemsOf(i, state)...)
	}
	return all
}

func (g *Generation) problemsOf(i int, state *upstream.State) []files.Problem {
	if len(g.Connectors) > 0 {
		return state.FileProblems
	}
	return g.fileProblems[g.Upstreams[i].Name]
}

// fileReports reports the problems of an upstream's files: each that is broken, and together what
// is served in part.
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
		case files.Doubtful: // for validate
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

// clause writes a problem within a sentence.
func clause(p files.Problem) string { return strings.TrimSuffix(p.String(), ".") }
