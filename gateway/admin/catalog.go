package admin

import (
	"slices"
	"strings"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/wire"
)

// PageSize is the number of prompts on one page of a search.
const PageSize = 50

const (
	// maxWords bounds the words of a search. Further words are ignored.
	maxWords = 16
	// maxSummary bounds the texts of a [PromptSummary], in bytes without the ellipsis. With the ellipsis, the
	// text just fits a line of the console. A longer text would be cut again there, with a wrong number of
	// missing bytes.
	maxSummary = 400 - len("…")
)

// CatalogQuery selects prompts. The zero value selects all prompts.
type CatalogQuery struct {
	// Text is a list of words. Each word must occur in the name, title or description of a prompt. Upper
	// and lower case are the same.
	Text string
	Team string
	// As is a principal, such as "user:ann,group:payments". It selects the prompts that the principal
	// sees.
	As string
	// Page counts from 1. The value 0 means the first page.
	Page int
}

// CatalogPage is one page of the matching prompts. Names that begin with the first word come first, then
// other matching names, then matching titles and descriptions. Each of these parts is sorted by name.
type CatalogPage struct {
	// Total is the number of matching prompts on all pages.
	Total   int             `json:"total"`
	Page    int             `json:"page"`
	Pages   int             `json:"pages"`
	Prompts []PromptSummary `json:"prompts"`
}

// PromptSummary is a prompt in a list. Long texts are cut.
type PromptSummary struct {
	Name        string   `json:"name"`
	Title       string   `json:"title,omitempty"`
	Description string   `json:"description,omitempty"`
	Team        string   `json:"team"`
	Upstreams   []string `json:"upstreams"`
	// Arguments are the names of the arguments.
	Arguments []string `json:"arguments,omitempty"`
	// Badges are "hidden" (from everyone), "drifted" (the definition differs from the lock file), "down"
	// (all its upstreams are down) and "renamed" (by a prompt block).
	Badges []string `json:"badges,omitempty"`
}

// Search returns the prompts that a query selects.
func (v *View) Search(q CatalogQuery) (CatalogPage, error) {
	principal, err := v.Principal(q.As)
	if err != nil {
		return CatalogPage{}, err
	}
	if err := v.checkTeam(q.Team); err != nil {
		return CatalogPage{}, err
	}
	s := v.Snapshot()
	words := strings.Fields(strings.ToLower(q.Text))
	found := search(inspect.Entries(s, principal), q.Team, words[:min(len(words), maxWords)])
	entries, at, pages := PageOf(found, q.Page, PageSize)
	page := CatalogPage{Total: len(found), Page: at, Pages: pages, Prompts: []PromptSummary{}}
	drifted := map[string]bool{}
	for _, report := range s.Reports() {
		drifted[report.Name] = drifted[report.Name] || report.Kind == catalog.Drift
	}
	for _, entry := range entries {
		summary := summarize(entry)
		summary.Badges = badgesOf(s, entry, drifted[entry.Name])
		page.Prompts = append(page.Prompts, summary)
	}
	return page, nil
}

// PageOf returns a page of a list, its number, and the number of pages. Pages count from 1. A number
// that is too high, for example from an old link, selects the last page.
func PageOf[T any](all []T, number, size int) (page []T, at, pages int) {
	pages = max(1, (len(all)+size-1)/size)
	at = min(max(1, number), pages)
	first := (at - 1) * size
	return all[first:min(first+size, len(all))], at, pages
}

// badgesOf returns the badges of an entry. drifted is true if a report says that it has drifted.
func badgesOf(s *snapshot.Snapshot, entry *catalog.Entry, drifted bool) (all []string) {
	down, renamed := true, false
	for _, owner := range entry.Owners {
		i, _ := s.Index(owner.Upstream) // the catalog has only upstreams of the snapshot
		level, _ := conditionOf(s.States[i])
		down = down && level == Bad
		renamed = renamed || s.ExposedName(&s.Sources[i], owner.Name) != entry.Name
	}
	for _, badge := range []struct {
		applies bool
		name    string
	}{{!inspect.IsVisible(s, entry), "hidden"}, {drifted, "drifted"}, {down, "down"}, {renamed, "renamed"}} {
		if badge.applies {
			all = append(all, badge.name)
		}
	}
	return all
}

func summarize(entry *catalog.Entry) PromptSummary {
	definition := wire.Members(entry.Facts())
	title, _ := definition.Text("title")
	description, _ := definition.Text("description")
	summary := PromptSummary{
		Name: entry.Name, Title: wire.Clip(title, maxSummary), Description: wire.Clip(description, maxSummary),
		Team: entry.Team,
	}
	for _, owner := range entry.Owners {
		summary.Upstreams = append(summary.Upstreams, owner.Upstream)
	}
	for _, argument := range entry.Arguments {
		summary.Arguments = append(summary.Arguments, wire.Clip(argument.Name, maxSummary))
	}
	return summary
}

// The ranks of matches, best first.
const (
	nameBegins = iota
	nameMatches
	textMatches
	noMatch
)

// rankOf returns the rank of an entry for a search.
func rankOf(entry *catalog.Entry, words []string) int {
	missing := func(text string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
	}
	text := entry.Searched()
	name, _, _ := strings.Cut(text, "\n")
	switch {
	case missing(text):
		return noMatch
	case missing(name):
		return textMatches
	case len(words) > 0 && !strings.HasPrefix(name, words[0]):
		return nameMatches
	}
	return nameBegins
}

// search returns the entries that match all words, the best matches first. Entries of equal rank stay
// in order. If team is empty, it searches the entries of all teams.
func search(entries []*catalog.Entry, team string, words []string) []*catalog.Entry {
	var ranked [noMatch + 1][]*catalog.Entry
	for _, entry := range entries {
		if team == "" || entry.Team == team {
			rank := rankOf(entry, words)
			ranked[rank] = append(ranked[rank], entry)
		}
	}
	return slices.Concat(ranked[:noMatch]...)
}
