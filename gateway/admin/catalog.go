package admin

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/wire"
)

// PageSize is how many prompts one page of a search has.
const PageSize = 50

const (
	// maxWords bounds the words of one search.
	maxWords = 16
	// maxSummary bounds the texts of a [PromptSummary], in bytes. With the mark of a cut, they fit
	// in a line of the console, which would cut them again and count only what it cut itself.
	maxSummary = 400 - len("…")
	// maxIndexed bounds how much of a title and of a description is searched, in bytes. The index
	// has a copy, and a server may write megabytes.
	maxIndexed = 4 << 10
)

// CatalogQuery selects prompts. The zero value selects all.
type CatalogQuery struct {
	// Text is words. Each must be in the name, the title or the description of a prompt, whatever
	// its case.
	Text string
	Team string
	// As selects what a principal sees, such as "user:ann,group:payments".
	As string
	// Page begins at 1, which 0 is too.
	Page int
}

// CatalogPage is a part of the prompts that were found: those whose names match come first, then by
// name.
type CatalogPage struct {
	// Total counts all prompts that were found.
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
	// Badges say what is unusual about it: "hidden" from everybody, "drifted" from the lock file,
	// "down" with all its servers, "renamed" by a prompt block.
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
	found := v.index.of(s.Catalog).search(inspect.Entries(s, principal), q.Team, wordsOf(q.Text))
	shown, at, pages := PageOf(found, q.Page, PageSize)
	page := CatalogPage{Total: len(found), Page: at, Pages: pages, Prompts: []PromptSummary{}}
	badges := newBadges(s)
	for _, entry := range shown {
		summary := summarize(entry)
		summary.Badges = badges.of(entry)
		page.Prompts = append(page.Prompts, summary)
	}
	return page, nil
}

// PageOf returns a page of a list by its number, the number itself, and how many pages there are. A
// page that is gone meanwhile is the last one: a browser may still show a link to it.
func PageOf[T any](all []T, number, size int) (page []T, at, pages int) {
	pages = max(1, (len(all)+size-1)/size)
	at = min(max(1, number), pages)
	first := (at - 1) * size
	return all[first:min(first+size, len(all))], at, pages
}

// badges are made for the entries of a page.
type badges struct {
	snapshot *snapshot.Snapshot
	sources  []catalog.Source
	drifted  map[string]bool // names that a report is about
}

func newBadges(s *snapshot.Snapshot) *badges {
	b := &badges{s, s.Sources(), map[string]bool{}}
	for _, report := range s.Reports() {
		if report.Kind == catalog.Drift {
			b.drifted[report.Name] = true
		}
	}
	return b
}

func (b *badges) of(entry *catalog.Entry) (all []string) {
	s := b.snapshot
	hidden, down, renamed := true, true, false
	for _, owner := range entry.Owners {
		hidden = hidden && len(s.Policy.Readers(entry.Team, owner.Upstream, entry.Name, entry.Facts())) == 0
		if i, known := s.Index(owner.Upstream); known {
			down = down && conditionOf(s.States[i]).level == Bad
			renamed = renamed || s.ExposedName(&b.sources[i], owner.Name) != entry.Name
		}
	}
	for _, badge := range []struct {
		applies bool
		name    string
	}{{hidden, "hidden"}, {b.drifted[entry.Name], "drifted"}, {down, "down"}, {renamed, "renamed"}} {
		if badge.applies {
			all = append(all, badge.name)
		}
	}
	return all
}

// wordsOf returns the words of a search in lower case.
func wordsOf(text string) []string {
	words := strings.Fields(strings.ToLower(text))
	return words[:min(len(words), maxWords)]
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

// searchIndex has the texts of the entries in lower case, which would take long to make for each
// search. It makes those of new entries when it is asked next.
type searchIndex struct {
	mu      sync.Mutex // guards what follows
	catalog *catalog.Catalog
	texts   indexed
}

// indexed is the index of one catalog. It is immutable.
type indexed map[*catalog.Entry]entryText

// entryText is an entry's name, and all of its texts, in lower case, and where the name stands among
// all in the order of [CompareNames].
type entryText struct {
	name, all string
	position  int
}

// of returns the index of a catalog.
func (x *searchIndex) of(c *catalog.Catalog) indexed {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.catalog == c {
		return x.texts
	}
	texts := make(indexed, len(c.Entries()))
	for _, entry := range c.Entries() {
		// Entries keep their pointers from one catalog to the next.
		text, ok := x.texts[entry]
		if !ok {
			text = textOf(entry)
		}
		texts[entry] = text
	}
	ordered := slices.SortedStableFunc(slices.Values(c.Entries()), func(a, b *catalog.Entry) int {
		return CompareNames(texts[a].name, texts[b].name)
	})
	for i, entry := range ordered {
		text := texts[entry]
		text.position = i
		texts[entry] = text
	}
	x.catalog, x.texts = c, texts
	return texts
}

func textOf(entry *catalog.Entry) entryText {
	definition := wire.Members(entry.Facts())
	title, _ := definition.Text("title")
	description, _ := definition.Text("description")
	name := strings.ToLower(entry.Name)
	return entryText{name: name, all: name + "\n" + indexedText(title) + "\n" + indexedText(description)}
}

// CompareNames orders names as people do: review_2 comes before review_10.
func CompareNames(a, b string) int {
	for a != "" && b != "" {
		m, n := leadingDigits(a), leadingDigits(b)
		// Without leading zeros, the longer number is the larger one.
		x, y := strings.TrimLeft(a[:m], "0"), strings.TrimLeft(b[:n], "0")
		if m == 0 || n == 0 {
			m, n, x, y = 1, 1, a[:1], b[:1]
		}
		if order := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); order != 0 {
			return order
		}
		a, b = a[m:], b[n:]
	}
	return cmp.Compare(len(a), len(b))
}

func leadingDigits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}

// indexedText returns what is searched of a text, in lower case.
func indexedText(text string) string {
	return strings.ToLower(strings.ToValidUTF8(text[:min(len(text), maxIndexed)], ""))
}

// The ranks of what is found, the best first.
const (
	nameBegins = iota
	nameMatches
	textMatches
	noMatch
)

// rank says how well an entry matches all words.
func (t entryText) rank(words []string) int {
	missing := func(text string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
	}
	switch {
	case missing(t.all):
		return noMatch
	case missing(t.name):
		return textMatches
	case len(words) > 0 && !strings.HasPrefix(t.name, words[0]):
		return nameMatches
	}
	return nameBegins
}

// search returns the entries of a team, or of all for "", that match all words: the best first,
// then by name.
func (x indexed) search(entries []*catalog.Entry, team string, words []string) []*catalog.Entry {
	type hit struct {
		entry          *catalog.Entry
		rank, position int
	}
	var hits []hit
	for _, entry := range entries {
		if team != "" && entry.Team != team {
			continue
		}
		if rank := x[entry].rank(words); rank != noMatch {
			hits = append(hits, hit{entry, rank, x[entry].position})
		}
	}
	slices.SortFunc(hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.position, b.position))
	})
	found := make([]*catalog.Entry, len(hits))
	for i := range hits {
		found[i] = hits[i].entry
	}
	return found
}
