package catalog_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// definition is an ordinary one: two arguments, some prose.
func definition(name string, version int) string {
	return fmt.Sprintf(`{"name":%q,"title":"Review %d","description":%q,"arguments":[`+
		`{"name":"code","description":"The code to review","required":true},`+
		`{"name":"style","description":"Which style guide to apply"}],"_meta":{"com.example/owner":"payments"}}`,
		name, version, strings.Repeat("Reviews a change and says what is wrong. ", 4))
}

// company returns prompts spread evenly over upstreams.
func company(tb testing.TB, prompts, upstreams int) []catalog.Source {
	sources := make([]catalog.Source, upstreams)
	for i := range sources {
		label := fmt.Sprintf("upstream%d", i)
		sources[i] = catalog.Source{Upstream: label, Team: fmt.Sprintf("team%d", i%100), Prefix: label, Place: "x.hcl:1"}
		sources[i].Prompts = list(tb, prompts/upstreams, 0)
	}
	return sources
}

func list(tb testing.TB, n, version int) []*catalog.Prompt {
	prompts := make([]*catalog.Prompt, n)
	for i := range prompts {
		prompts[i] = parse(tb, definition(fmt.Sprintf("review_Thing_%d", i), version))
	}
	return prompts
}

// sizes runs a benchmark at growing sizes of the catalog.
func sizes(b *testing.B, run func(b *testing.B, prompts, upstreams int)) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) { run(b, n, 1_000) })
	}
}

// BenchmarkParsePrompt is the reading of one definition that an upstream lists: 16 allocations with two arguments.
func BenchmarkParsePrompt(b *testing.B) {
	raw := []byte(definition("review", 0))
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := catalog.ParsePrompt(raw); err != nil {
			b.Fatal(err)
		}
	}
}

// A merge grows with what is merged, and not faster.
func TestMerge_AllocatesInProportionToPrompts(t *testing.T) {
	const upstreams, perPrompt, perUpstream = 100, 9, 10
	for _, prompts := range []int{1_000, 4_000} {
		sources := company(t, prompts, upstreams)
		got := testing.AllocsPerRun(1, func() { catalog.Merge(sources, options()) })
		if want := float64(prompts*perPrompt + upstreams*perUpstream); got > want {
			t.Errorf("merging %d prompts of %d upstreams allocates %v times, want at most %v", prompts, upstreams, got, want)
		}
	}
}

// BenchmarkMerge makes a catalog of all upstreams' prompts: 8 allocations for each prompt, and some for each upstream.
func BenchmarkMerge(b *testing.B) {
	sizes(b, func(b *testing.B, prompts, upstreams int) {
		sources := company(b, prompts, upstreams)
		b.ReportAllocs()
		for b.Loop() {
			catalog.Merge(sources, options())
		}
	})
}

// BenchmarkRefresh: one upstream lists again, every definition new; 100 audiences, half of which see it, look at the
// difference. The number of allocations does not grow with the catalog: 960 for the catalog, 6 for each audience.
func BenchmarkRefresh(b *testing.B) {
	sizes(b, func(b *testing.B, prompts, upstreams int) {
		sources := company(b, prompts, upstreams)
		s := catalog.Merge(sources, options())
		views := make([]*catalog.View, 100)
		for i := range views {
			views[i] = s.View(everybody)
		}
		lists := [][]*catalog.Prompt{list(b, 100, 1), list(b, 100, 2)}
		source, turn := sources[upstreams/2], 0
		nobody := func(*catalog.Entry) bool { return false }

		step := func(audiences int) func(b *testing.B) {
			return func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					turn++
					source.Prompts = lists[turn%2]
					later := refreshed(s, source)
					changes := catalog.Diff(s, later)
					for i := range audiences {
						if i%2 == 0 {
							views[i] = views[i].With(later, changes, everybody)
						} else {
							new(catalog.View).With(later, changes, nobody)
						}
					}
					s = later
				}
			}
		}
		b.Run("catalog", step(0))
		for i := range views {
			views[i] = s.View(everybody)
		}
		b.Run("catalog+100views", step(100))
	})
}

// A page and a name are found, and a page is written where there is room for it, without any allocation.
func TestCatalog_ReadingAllocatesNothing(t *testing.T) {
	s := catalog.Merge(company(t, 1000, 10), options())
	v := s.View(everybody)
	middle := v.Entries()[v.Len()/2].Name
	room := make([]byte, 0, 1<<20)
	defer runtime.KeepAlive(v.FirstPage(100))
	for name, read := range map[string]func(){
		"Page":      func() { v.Page(middle, 100) },
		"FirstPage": func() { v.FirstPage(100) },
		"Lookup":    func() { s.Lookup(middle) },
		"AppendPrompts": func() {
			entries, _, _ := v.Page(middle, 100)
			catalog.AppendPrompts(room, entries)
		},
	} {
		upstreamtest.Equal(t, 0, testing.AllocsPerRun(100, read), "allocations of %s", name)
	}
}

// Heap per entry, the upstream's own list included.
func BenchmarkMemory(b *testing.B) {
	sizes(b, func(b *testing.B, prompts, upstreams int) {
		var before, after runtime.MemStats
		for b.Loop() {
			runtime.GC()
			runtime.ReadMemStats(&before)
			s := catalog.Merge(company(b, prompts, upstreams), options())
			v := s.View(everybody)
			runtime.GC()
			runtime.ReadMemStats(&after)
			size := len(s.Entries()[0].JSON)
			b.ReportMetric(0, "ns/op") // says nothing
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(prompts), "B/entry")
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(prompts)-2*float64(size), "B/entry-2def")
			runtime.KeepAlive(v)
			runtime.KeepAlive(s)
		}
	})
}
