package catalog_test

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func names(entries []*catalog.Entry) []string {
	list := []string{}
	for _, e := range entries {
		list = append(list, e.Name)
	}
	return list
}

func TestPage_ReturnsEntriesAfterAName(t *testing.T) {
	v := catalog.Merge([]catalog.Source{upstream(t, "a/u prefix=", "a", "b", "c", "d", "e")}, options()).View(everybody)
	for _, test := range []struct {
		after string
		size  int
		want  string
		next  string
	}{
		{"", 2, "a b", "b"},
		{"b", 2, "c d", "d"},
		{"d", 2, "e", ""},
		{"e", 2, "", ""},
		{"bb", 2, "c d", "d"}, // an entry that is gone
		{"zzz", 2, "", ""},
		{"", 5, "a b c d e", ""},
		{"", 4, "a b c d", "d"},
		{"", math.MaxInt, "a b c d e", ""},
		{"a", 0, "b", "b"}, // a page has at least one entry, so that clients make progress
	} {
		entries, next, more := v.Page(test.after, test.size)
		if got := strings.Join(names(entries), " "); got != test.want || next != test.next || more != (test.next != "") {
			t.Errorf("Page(%q, %d) = %q, %q, %v, want %q, %q", test.after, test.size, got, next, more, test.want, test.next)
		}
	}
	if entries, _, more := new(catalog.View).Page("", 10); len(entries) != 0 || more {
		t.Errorf("Page of the zero view = %v, %v", entries, more)
	}
}

// A page ends before it exceeds 4 MiB, and a larger definition has a page of its own.
func TestPage_EndsBeforeItIsLargerThan4MiB(t *testing.T) {
	const mib = 1 << 20
	var prompts []*catalog.Prompt
	for i, size := range []int{1, 1, 1, 2, 5, 1, 3, 1, 1} {
		text := strings.Repeat("x", size*mib-len(`{"name":"a","description":""}`))
		prompts = append(prompts, parse(t, `{"name":"`+string(rune('a'+i))+`","description":"`+text+`"}`))
	}
	v := catalog.Merge([]catalog.Source{{Upstream: "u", Team: "a", Prompts: prompts}}, options()).View(everybody)
	for _, test := range []struct {
		size int
		want string
	}{
		{10_000, "a b c|d|e|f g|h i"},
		{2, "a b|c d|e|f g|h i"},
		{1, "a|b|c|d|e|f|g|h|i"},
	} {
		var pages []string
		var lengths []int
		for after, more := "", true; more; {
			var entries []*catalog.Entry
			entries, after, more = v.Page(after, test.size)
			pages, lengths = append(pages, strings.Join(names(entries), " ")), append(lengths, len(entries))
		}
		upstreamtest.Equal(t, test.want, strings.Join(pages, "|"), "pages of %d", test.size)
		if got := v.Pages(test.size); !slices.Equal(got, lengths) {
			t.Errorf("Pages(%d) = %v, want %v", test.size, got, lengths)
		}
	}
}

// A first page has the bytes of Page and AppendPrompts, and follows the size and the catalog.
func TestFirstPage_EqualsPage(t *testing.T) {
	s := catalog.Merge([]catalog.Source{upstream(t, "a/u prefix=", "a", "b", "c")}, options())
	v := s.View(everybody)
	later := refreshed(s, upstream(t, "a/u prefix=", "a=new", "b", "d"))
	for name, v := range map[string]*catalog.View{
		"a view": v, "the next": v.With(later, catalog.Diff(s, later), everybody), "a view of nothing": s.View(func(*catalog.Entry) bool { return false }),
	} {
		for _, size := range []int{2, 2, 3, 4, 1, 0, 2} {
			entries, next, _ := v.Page("", size)
			page := v.FirstPage(size)
			upstreamtest.Equal(t, string(catalog.AppendPrompts(nil, entries)), string(page.Prompts), "%s: first page of %d", name, size)
			upstreamtest.Equal(t, next, page.Next, "%s: where the second page of %d begins", name, size)
		}
	}
}

// A first page is rendered once for as long as a caller holds it. Then its memory is free, although the view lives on.
func TestFirstPage_IsKeptWhileItIsHeld(t *testing.T) {
	v := catalog.Merge([]catalog.Source{upstream(t, "a/a", "x", "y")}, options()).View(everybody)
	page := v.FirstPage(2)
	runtime.GC()
	if again := v.FirstPage(2); again != page {
		t.Error("a page that is held was rendered again")
	}
	seen, bytes := weak.Make(page), weak.Make(&page.Prompts[0])
	runtime.KeepAlive(page)
	page = nil //nolint:wastedassign // no reference is left
	runtime.GC()
	if seen.Value() != nil || bytes.Value() != nil {
		t.Error("a page that nobody holds is still in memory")
	}
	if got := v.FirstPage(2).Prompts; !strings.Contains(string(got), `"a.y"`) {
		t.Errorf("after a collection the page is %s", got)
	}
	runtime.KeepAlive(v)
}

func TestView_ShowsWhatIsVisible(t *testing.T) {
	s := catalog.Merge([]catalog.Source{upstream(t, "a/a", "x", "y"), upstream(t, "b/b", "x")}, options())
	teamA := func(e *catalog.Entry) bool { return e.Team == "a" }
	v := s.View(teamA)
	if got := names(v.Entries()); v.Len() != 2 || !slices.Equal(got, []string{"a.x", "a.y"}) {
		t.Errorf("team a sees %v", got)
	}
	if v.Lookup("a.x") == nil || v.Lookup("b.x") != nil {
		t.Error("Lookup does not agree with Entries")
	}
	if v.Kind(false) != v || v.Kind(true).Len() != 0 {
		t.Error("a view without skills is taken apart")
	}
	if v.Fingerprint() == s.View(everybody).Fingerprint() {
		t.Error("two views have one fingerprint")
	}
	if changed := refreshed(s, upstream(t, "b/b", "x=new")); changed.View(teamA).Fingerprint() != v.Fingerprint() {
		t.Error("a change that the audience cannot see changes its fingerprint")
	}
	if changed := refreshed(s, upstream(t, "a/a", "x=new", "y")); changed.View(teamA).Fingerprint() == v.Fingerprint() {
		t.Error("a definition changed, the fingerprint did not")
	}
}

func TestViewWith_EqualsAViewOfTheLaterCatalog(t *testing.T) {
	visible := func(e *catalog.Entry) bool { return e.Fingerprint[0]%4 > 0 && e.Owners[0].Upstream != "u1" }
	rapid.Check(t, func(t *rapid.T) {
		sources := drawSources(t, draw(t, "sources", 1, 5))
		s := catalog.Merge(sources, drawOptions(t))
		v := s.View(visible)
		for range draw(t, "changes", 1, 5) {
			source := rapid.SampledFrom(sources).Draw(t, "source")
			source.Prompts = drawPrompts(t)
			later := refreshed(s, source)
			next, want := v.With(later, catalog.Diff(s, later), visible), later.View(visible)
			if next.Len() != want.Len() || !slices.Equal(next.Entries(), want.Entries()) || next.Fingerprint() != want.Fingerprint() {
				t.Fatalf("With = %v, want %v", names(next.Entries()), names(want.Entries()))
			}
			s, v = later, next
		}
	})
}

func TestViewEntries_AreMadeAnewAfterAPanic(t *testing.T) {
	isBroken := false
	visible := func(*catalog.Entry) bool {
		if isBroken {
			panic("out of range")
		}
		return true
	}
	s := catalog.Merge([]catalog.Source{upstream(t, "a/a", "x")}, options())
	v := s.View(visible)
	for _, name := range []string{"y", "z"} { // the entries of a view whose predecessor has none yet are filtered
		later := refreshed(s, upstream(t, "a/a", name))
		s, v = later, v.With(later, catalog.Diff(s, later), visible)
	}
	isBroken = true
	func() {
		defer func() { _ = recover() }()
		v.Entries()
		t.Error("nothing has panicked")
	}()
	isBroken = false
	if got := names(v.Entries()); !slices.Equal(got, []string{"a.z"}) {
		t.Errorf("after a panic the view has %v", got)
	}
}

func TestViewWith_ReturnsItselfWithoutVisibleChange(t *testing.T) {
	s := catalog.Merge([]catalog.Source{upstream(t, "a/a", "x"), upstream(t, "b/b", "x")}, options())
	teamA := func(e *catalog.Entry) bool { return e.Team == "a" }
	v := s.View(teamA)
	if got := v.With(refreshed(s, upstream(t, "b/b", "y")), catalog.Diff(s, refreshed(s, upstream(t, "b/b", "y"))), teamA); got != v {
		t.Error("a change that nobody sees makes a new view")
	}
}

func TestAppendPrompts_IsJSON(t *testing.T) {
	s := catalog.Merge([]catalog.Source{{Upstream: "u", Prompts: []*catalog.Prompt{parse(t, everything), parse(t, `{"name":"z"}`)}}}, options())
	for n, want := range []string{`{"prompts":[]}`, `{"prompts":[` + everything + `]}`, `{"prompts":[` + everything + `,{"name":"z"}]}`} {
		got := string(append(catalog.AppendPrompts([]byte("{"), s.Entries()[:n]), '}'))
		if diff := cmp.Diff(want, got); diff != "" || !json.Valid([]byte(got)) {
			t.Errorf("%d entries (-want +got):\n%s", n, diff)
		}
	}
}

// A client that walks all pages while upstreams change meets each entry that was there throughout exactly once, in order, and
// reaches the end.
func TestPage_WalkingAllPagesWhileTheCatalogChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := func(upstream string, most int) catalog.Source {
			s := catalog.Source{Upstream: upstream, Team: "a"}
			for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 59), 0, most, rapid.ID).Draw(t, upstream) {
				s.Prompts = append(s.Prompts, parse(t, fmt.Sprintf(`{"name":"n%02d"}`, i)))
			}
			return s
		}
		stable := source("stable", 20)
		s := catalog.Merge([]catalog.Source{stable, {Upstream: "restless", Team: "a"}}, options())
		var drained []string
		for after, more := "", true; more; {
			var entries []*catalog.Entry
			entries, after, more = s.View(everybody).Page(after, draw(t, "size", 1, 5))
			if len(entries) == 0 && more {
				t.Fatal("an empty page is not the last")
			}
			drained = append(drained, names(entries)...)
			for range draw(t, "changes", 0, 2) { // names between the stable ones, and the same ones with the same definition
				s = refreshed(s, source("restless", 20))
			}
		}
		if !slices.IsSorted(drained) || len(slices.Compact(slices.Clone(drained))) != len(drained) {
			t.Fatalf("the pages have %v: out of order or twice", drained)
		}
		for _, p := range stable.Prompts {
			if !slices.Contains(drained, p.Name) {
				t.Fatalf("the pages have %v without %q", drained, p.Name)
			}
		}
	})
}
