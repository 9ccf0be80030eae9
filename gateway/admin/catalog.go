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
	// maxWords bounds the words of a search.
	maxWords = 16
	// maxSummary bounds the texts of a [PromptSummary], in bytes. With the mark of a cut they fit
	// in a line of the console, which would otherwise cut them again and count only its own cut.
	maxSummary = 400 - len("…")
)

// CatalogQuery selects prompts. The zero value selects all.
type CatalogQuery struct {
	// Text is a list of words. Each must occur in the name, title or description of a prompt, in
	// any case.
	Text string
	Team string
	// As selects the prompts that a principal sees, such as "user:ann,group:payments".
	As string
	// Page counts from 1; 0 means the first page.
	Page int
}

// CatalogPage is one page of the found prompts. Prompts with matching names come first; each part
// is sorted by name.
type CatalogPage struct {
	// Total is the number of all found prompts.
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
	// Badges name unusual properties: "hidden" from everybody, "drifted" from the lock file, "down"
	// with all its servers, or "renamed" by a prompt block.
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
	shown, at, pages := PageOf(found, q.Page, PageSize)
	page := CatalogPage{Total: len(found), Page: at, Pages: pages, Prompts: []PromptSummary{}}
	drifted := map[string]bool{}
	for _, report := range s.Reports() {
		drifted[report.Name] = drifted[report.Name] || report.Kind == catalog.Drift
	}
	for _, entry := range shown {
		summary := summarize(entry)
		summary.Badges = badgesOf(s, entry, drifted[entry.Name])
		page.Prompts = append(page.Prompts, summary)
	}
	return page, nil
}

// PageOf returns a page of a list, its number, and the number of pages. A number that is too high
// selects the last page: a browser may show an old link.
func PageOf[T any](all []T, number, size int) (page []T, at, pages int) {
	pages = max(1, (len(all)+size-1)/size)
	at = min(max(1, number), pages)
	first := (at - 1) * size
	return all[first:min(first+size, len(all))], at, pages
}

// badgesOf returns the badges of an entry. drifted is true if it has a report of drift.
func badgesOf(s *snapshot.Snapshot, entry *catalog.Entry, drifted bool) (all []string) {
	hidden, down, renamed := true, true, false
	for _, owner := range entry.Owners {
		hidden = hidden && len(s.Policy.Readers(entry.Team, owner.Upstream, entry.Name, entry.Facts())) == 0
		if i, known := s.Index(owner.Upstream); known {
			level, _ := conditionOf(s.States[i])
			down = down && level == Bad
			renamed = renamed || s.ExposedName(&s.Sources[i], owner.Name) != entry.Name
		}
	}
	for _, badge := range []struct {
		applies bool
		name    string
	}{{hidden, "hidden"}, {drifted, "drifted"}, {down, "down"}, {renamed, "renamed"}} {
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

// rankOf returns how well an entry matches all words.
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

// search returns the entries that match all words, of one team or of all for "". The best matches
// come first; entries of equal rank stay in order.
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
