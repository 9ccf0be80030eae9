package catalog_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

func options() catalog.Options { return catalog.Options{Separator: "."} }

// upstream returns the source of an upstream, given as "team/label" or "team/label prefix=P", that lists prompts,
// each given as "name" or "name=title".
func upstream(t rapid.TB, who string, prompts ...string) catalog.Source {
	t.Helper()
	who, prefix, hasPrefix := strings.Cut(who, " prefix=")
	team, label, _ := strings.Cut(who, "/")
	if !hasPrefix {
		prefix = label
	}
	s := catalog.Source{Upstream: label, Team: team, Prefix: prefix, Place: fmt.Sprintf("teams/%s.hcl:%d", team, len(label))}
	for _, p := range prompts {
		name, title, _ := strings.Cut(p, "=")
		s.Prompts = append(s.Prompts, parse(t, fmt.Sprintf(`{"name":%q,"title":%q}`, name, title)))
	}
	return s
}

// text returns a member of an entry's definition.
func text(e *catalog.Entry, member string) string {
	object, _ := wire.ParseObject(e.JSON)
	value, _ := object.Text(member)
	return value
}

// show writes a catalog's entries as "name=title upstream:own-name…", and its reports as "kind name".
func show(s *catalog.Catalog) []string {
	shown := []string{}
	for _, e := range s.Entries() {
		line := []string{e.Name + "=" + text(e, "title")}
		for _, o := range e.Owners {
			line = append(line, o.Upstream+":"+o.Name)
		}
		shown = append(shown, strings.Join(line, " "))
	}
	for _, r := range s.Reports() {
		shown = append(shown, string(r.Kind)+" "+r.Name)
	}
	return shown
}

func TestMerge_DecidesWhoOwnsEachName(t *testing.T) {
	long := strings.Repeat("n", catalog.MaxName-len("b.")+1)
	first := catalog.Options{Separator: ".", KeepFirst: true}
	for _, test := range []struct {
		rule    string
		opts    catalog.Options
		sources []catalog.Source
		want    []string
	}{
		{"nothing", options(), nil, []string{}},
		{"names have the prefix and sort by bytes", options(), []catalog.Source{
			upstream(t, "b/z", "é", "a", "Z"), upstream(t, "a/m", "x"),
		}, []string{"m.x= m:x", "z.Z= z:Z", "z.a= z:a", "z.é= z:é"}},
		{"the same definition is one entry with owners in configuration order", options(), []catalog.Source{
			upstream(t, "a/two prefix=p", "x=T"), upstream(t, "a/one prefix=p", "x=T"), upstream(t, "a/three prefix=p", "y"),
		}, []string{"p.x=T two:x one:x", "p.y= three:y"}},
		{"one exposed name reached by different own names", options(), []catalog.Source{
			upstream(t, "a/one prefix=p", "x=T"), upstream(t, "a/two prefix=", "p.x=T"),
		}, []string{"p.x=T one:x two:p.x"}},
		{"with one prefix, the first definition is served by those that have it", options(), []catalog.Source{
			upstream(t, "a/one prefix=p", "x=1", "y"), upstream(t, "a/two prefix=p", "x=2", "y"), upstream(t, "a/three prefix=p", "x=1", "z"),
		}, []string{"p.x=1 one:x three:x", "p.y= one:y two:y", "p.z= three:z", "difference p.x"}},
		{"with one prefix, the order of the configuration counts", options(), []catalog.Source{
			upstream(t, "a/two prefix=p", "x=2"), upstream(t, "a/one prefix=p", "x=1"),
		}, []string{"p.x=2 two:x", "difference p.x"}},
		{"a conflict drops all claimants", options(), []catalog.Source{
			upstream(t, "a/one prefix=", "x=1", "y"), upstream(t, "a/two prefix=", "x=2"),
		}, []string{"y= one:y", "conflict x"}},
		{"a conflict drops also the two of three that agree", options(), []catalog.Source{
			upstream(t, "a/one prefix=", "x=1"), upstream(t, "a/two prefix=", "x=2"), upstream(t, "a/three prefix=", "x=1"),
		}, []string{"conflict x"}},
		{"a conflict drops also upstreams with one prefix", options(), []catalog.Source{
			upstream(t, "a/one prefix=p", "x=1"), upstream(t, "a/two prefix=p", "x=2"), upstream(t, "a/three prefix=", "p.x=1"),
		}, []string{"conflict p.x"}},
		{"first keeps the first and those that agree with it", first, []catalog.Source{
			upstream(t, "a/one prefix=", "x=1"), upstream(t, "a/two prefix=", "x=2"), upstream(t, "a/three prefix=", "x=1"),
		}, []string{"x=1 one:x three:x", "conflict x"}},
		{"a name twice in one list: the first wins", options(), []catalog.Source{
			upstream(t, "a/one", "x=1", "y", "x=2", "x=3"),
		}, []string{"one.x=1 one:x", "one.y= one:y", "duplicate one.x"}},
		{"a duplicate is no claimant in a conflict", options(), []catalog.Source{
			upstream(t, "a/one prefix=p", "x=1", "x=2"), upstream(t, "a/two prefix=p", "x=1"),
		}, []string{"p.x=1 one:x two:x", "duplicate p.x"}},
		{"an un-prefixed prompt in another team's prefix is left out", options(), []catalog.Source{
			upstream(t, "a/free prefix=", "billing.pay=evil", "billing", "billings.pay", "billing.a.b", "other.billing.x"), upstream(t, "b/billing", "pay"),
		}, []string{
			"billing= free:billing", "billing.pay= billing:pay", "billings.pay= free:billings.pay", "other.billing.x= free:other.billing.x",
			"foreign_prefix billing.a.b", "foreign_prefix billing.pay",
		}},
		{"a prefix is owned also while its upstream was never listed", options(), []catalog.Source{
			upstream(t, "a/free prefix=", "billing.pay"), upstream(t, "b/billing"),
		}, []string{"foreign_prefix billing.pay"}},
		{"an un-prefixed prompt may lie in a prefix of its own team", options(), []catalog.Source{
			upstream(t, "a/free prefix=", "billing.pay"), upstream(t, "a/billing", "x"),
		}, []string{"billing.pay= free:billing.pay", "billing.x= billing:x"}},
		{"a separator of several characters that overlaps itself hides no foreign prefix", catalog.Options{Separator: "__"}, []catalog.Source{
			upstream(t, "a/free prefix=", "b___x", "b__y"), upstream(t, "a/short prefix=b", "_z", "w"), upstream(t, "b/long prefix=b_", "x"),
		}, []string{"b___x= long:x", "b__w= short:w", "b__y= free:b__y", "foreign_prefix b___x", "foreign_prefix b___z"}},
		{"a second claim to a prefix by another team gets nothing", options(), []catalog.Source{
			upstream(t, "a/one prefix=p", "x=1"), upstream(t, "b/two prefix=p", "x=2", "y"),
			upstream(t, "a/three prefix=", "u=1"), upstream(t, "b/four prefix=", "u=2"),
		}, []string{"p.x=1 one:x", "u=1 three:u", "foreign_prefix p.x", "foreign_prefix p.y", "foreign_prefix u"}},
		{"a name over 256 bytes is left out", options(), []catalog.Source{
			upstream(t, "a/b", long[1:], long),
		}, []string{"b." + long[1:] + "= b:" + long[1:], "name_too_long b." + strings.Repeat("n", 62) + "… (257 bytes)"}},
		{"names that clients fold together stay, with a warning", options(), []catalog.Source{
			upstream(t, "a/A", "x y", "x_y", "x/y", "x-y"), upstream(t, "b/a", "X_Y", "é"),
		}, []string{
			"A.x y= A:x y", "A.x-y= A:x-y", "A.x/y= A:x/y", "A.x_y= A:x_y", "a.X_Y= a:X_Y", "a.é= a:é", "folded_names A.x y",
		}},
		{"letters and digits do not fold with an underscore", options(), []catalog.Source{
			upstream(t, "a/a prefix=", "A", "z", "0", "9", "-", "_"),
		}, []string{"-= a:-", "0= a:0", "9= a:9", "A= a:A", "_= a:_", "z= a:z"}},
		{"a dot folds with an underscore, as in some clients", options(), []catalog.Source{
			upstream(t, "a/foo", "bar_x"), upstream(t, "a/foo_bar", "x"),
		}, []string{"foo.bar_x= foo:bar_x", "foo_bar.x= foo_bar:x", "folded_names foo.bar_x"}},
		{"a name that was left out folds with nothing", options(), []catalog.Source{
			upstream(t, "a/one prefix=", "x=1", "X"), upstream(t, "a/two prefix=", "x=2"),
		}, []string{"X= one:X", "conflict x"}},
	} {
		t.Run(test.rule, func(t *testing.T) {
			upstreamtest.Equal(t, test.want, show(catalog.Merge(test.sources, test.opts)), "catalog")
		})
	}
}

func TestReports_NameOwnerPlaceAndRemedy(t *testing.T) {
	sources := []catalog.Source{
		upstream(t, "a/one prefix=p", "x=1", "y", "y"), upstream(t, "a/two prefix=p", "x=2", "Y"), upstream(t, "a/three prefix=q", "x=1"),
		upstream(t, "a/free prefix=", "billing.pay", strings.Repeat("世", 100), "q.x=2"), upstream(t, "b/billing"),
	}
	var texts []string
	for _, r := range catalog.Merge(sources, options()).Reports() {
		texts = append(texts, r.Text)
	}
	want := []string{
		`prompt "billing.pay" of upstream "free" (teams/a.hcl:4) lies inside the prefix "billing", which belongs to team "b", upstream "billing" (teams/b.hcl:7): it is left out; set a prefix on upstream "free", or rename the prompt`,
		`some clients cannot tell these prompts apart, because they turn each into "p_y": "p.Y" of upstream "two" (teams/a.hcl:3) and "p.y" of upstream "one" (teams/a.hcl:3); rename all but one of them`,
		`prompt "p.x" is defined differently by upstream "two" (teams/a.hcl:3): gets go to upstream "one" (teams/a.hcl:3) only until the definitions are equal; update the servers, or set a different prefix on one of the upstreams`,
		`upstream "one" (teams/a.hcl:3) lists prompt "y" more than once: the first is used; remove the others from its server`,
		`prompt "q.x" has different definitions in upstream "three" (teams/a.hcl:5) and upstream "free" (teams/a.hcl:4): all are left out; rename the prompt in one of them, or set a different prefix on one of the upstreams`,
		`prompt "` + strings.Repeat("世", 21) + `… (300 bytes)" of upstream "free" (teams/a.hcl:4) has an exposed name of 300 bytes, more than 256: it is left out; shorten its name or the upstream's prefix`,
	}
	upstreamtest.Equal(t, want, texts, "texts")

	first := catalog.Merge(sources, catalog.Options{Separator: ".", KeepFirst: true}).Reports()
	if got := first[4].Text; !strings.Contains(got, `: that of upstream "three" (teams/a.hcl:5) is used; `) {
		t.Errorf("conflict = first: %s", got)
	}
}

func TestReports_EnumerateEightUpstreams(t *testing.T) {
	for n, want := range map[int]string{
		2: `"1" (teams/a.hcl:1) and upstream "2" (teams/a.hcl:1): all`, 8: `"7" (teams/a.hcl:1) and upstream "8" (teams/a.hcl:1): all`,
		9: `"8" (teams/a.hcl:1) and 1 more: all`,
	} {
		var sources []catalog.Source
		for i := range n {
			sources = append(sources, upstream(t, fmt.Sprintf("a/%d prefix=", i+1), fmt.Sprintf("x=%d", i)))
		}
		if got := catalog.Merge(sources, options()).Reports()[0].Text; !strings.Contains(got, want) {
			t.Errorf("%d upstreams: %s, want %s", n, got, want)
		}
	}
}

func TestReport_SaysWhereAndOfWhichUpstream(t *testing.T) {
	u, v := upstream(t, "a/u"), upstream(t, "b/v")
	owners := []catalog.Owner{u.Owner("x"), v.Owner("x")}
	for _, test := range []struct {
		report          catalog.Report
		place, upstream string
	}{
		{catalog.Report{}, "", ""},
		{catalog.Report{Block: "b.hcl:2"}, "b.hcl:2", ""},
		{catalog.Report{Owners: owners}, "teams/a.hcl:1", "u"},
		{catalog.Report{Owners: owners, Block: "b.hcl:2"}, "b.hcl:2", "u"},
	} {
		if place, upstream := test.report.Place(), test.report.Upstream(); place != test.place || upstream != test.upstream {
			t.Errorf("%+v is at %q of %q, want %q of %q", test.report, place, upstream, test.place, test.upstream)
		}
	}
}

func TestReportKey_ChangesOnlyWithTheFinding(t *testing.T) {
	keys := func(sources ...catalog.Source) (keys []string) {
		for _, r := range catalog.Merge(sources, options()).Reports() {
			keys = append(keys, r.Key())
		}
		return keys
	}
	one, two := upstream(t, "a/one prefix=", "x=1"), upstream(t, "a/two prefix=", "x=2")
	before := keys(one, two)
	one.Place = "moved.hcl:1"
	upstreamtest.Equal(t, before, keys(one, two), "moved")
	if got := keys(one, two, upstream(t, "a/three prefix=", "x=1")); cmp.Equal(before, got) {
		t.Errorf("a third claimant: the key is still %q", got)
	}
}

// A few names and definitions, so that sources that are drawn meet in every way.
func drawSources(t *rapid.T, n int) (sources []catalog.Source) {
	for i := range n {
		prefix := rapid.SampledFrom([]string{"", "p", "P", "q"}).Draw(t, "prefix")
		team := map[string]string{"": "a", "p": "b", "P": "a", "q": "b"}[prefix]
		sources = append(sources, catalog.Source{
			Upstream: fmt.Sprintf("u%d", i), Team: team, Prefix: prefix, Place: fmt.Sprintf("%d.hcl:1", i), Prompts: drawPrompts(t),
		})
	}
	return sources
}

func drawPrompts(t *rapid.T) []*catalog.Prompt {
	name := rapid.SampledFrom([]string{"x", "X", "y", "p.x", "P.x", "q.y", "p", "z z", "z_z", "p.X", strings.Repeat("l", 255)})
	definition := rapid.SampledFrom([]string{`{"name":%q}`, `{"name":%q,"n":1.0}`, `{"n":1,"name":%q}`, `{"name":%q,"n":2}`})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *catalog.Prompt {
		return parse(t, fmt.Sprintf(definition.Draw(t, "definition"), name.Draw(t, "name")))
	}), 0, 7).Draw(t, "prompts")
}

func drawOptions(t *rapid.T) catalog.Options {
	return catalog.Options{Separator: ".", KeepFirst: rapid.Bool().Draw(t, "keep first")}
}

func draw(t *rapid.T, what string, least, most int) int {
	return rapid.IntRange(least, most).Draw(t, what)
}

// contents is all that can be seen of a catalog.
type contents struct {
	Entries []*catalog.Entry
	Reports []catalog.Report
	Print   catalog.Fingerprint
}

func contentsOf(s *catalog.Catalog) contents {
	return contents{s.Entries(), s.Reports(), s.View(everybody).Fingerprint()}
}

func everybody(*catalog.Entry) bool { return true }

// refreshed returns a catalog with the list of another source.
func refreshed(c *catalog.Catalog, source catalog.Source) *catalog.Catalog {
	return c.With(source.Upstream, source.Prompts)
}

func diffContents(a, b *catalog.Catalog) string {
	return cmp.Diff(contentsOf(a), contentsOf(b), cmp.AllowUnexported(catalog.Entry{}), cmpopts.IgnoreFields(catalog.Entry{}, "decided", "searched"))
}

func TestMerge_NamesAreSortedAndUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := catalog.Merge(drawSources(t, draw(t, "sources", 0, 5)), drawOptions(t))
		for i, e := range s.Entries() {
			if i > 0 && s.Entries()[i-1].Name >= e.Name {
				t.Fatalf("%q stands before %q", s.Entries()[i-1].Name, e.Name)
			}
			if got := s.Lookup(e.Name); got != e {
				t.Fatalf("Lookup(%q) = %v, want %v", e.Name, got, e)
			}
			if len(e.Owners) == 0 || bytes.ContainsAny(e.JSON, "\r\n") {
				t.Fatalf("bad entry %+v", e)
			}
		}
		for _, name := range []string{"", "p.", "\xff", "none"} {
			if got := s.Lookup(name); got != nil {
				t.Fatalf("Lookup(%q) = %v, want none", name, got)
			}
		}
	})
}

// The catalog depends only on the last lists, in any order of arrival.
func TestWith_EqualsMergeInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		last, opts := drawSources(t, draw(t, "sources", 1, 6)), drawOptions(t)
		never := slices.Clone(last)
		for i := range never {
			never[i].Prompts = nil
		}
		got := catalog.Merge(never, opts)
		for range draw(t, "lists meanwhile", 0, 4) {
			got = got.With(rapid.SampledFrom(last).Draw(t, "source").Upstream, drawPrompts(t))
		}
		for _, source := range rapid.Permutation(last).Draw(t, "order") {
			got = refreshed(got, source)
		}
		if diff := diffContents(catalog.Merge(last, opts), got); diff != "" {
			t.Fatalf("Merge and With differ (-merge +with):\n%s", diff)
		}
	})
}

// Skills are distinguished by the name in their frontmatter, regardless of their paths.
func TestWith_DropsTheReportOfSkillsWithOneName(t *testing.T) {
	skills := func(paths ...string) catalog.Source {
		source := catalog.Source{Upstream: "a/one", Team: "a", Skills: true}
		for _, path := range paths {
			uri := "skill://" + path + "/SKILL.md"
			prompt, err := catalog.ParseDefinition([]byte(`{"uri":"`+uri+`","frontmatter":{"name":"x","description":"D"},"resources":"dynamic"}`), true)
			if err != nil {
				t.Fatal(err)
			}
			source.Prompts = append(source.Prompts, &prompt)
		}
		return source
	}
	both := catalog.Merge([]catalog.Source{skills("a/x", "b/x")}, options())
	if got := both.Reports(); len(got) != 1 || got[0].Kind != catalog.FoldedNames {
		t.Fatalf("reports of two skills named x = %v, want folded names", got)
	}
	if got := refreshed(both, skills("a/x")).Reports(); len(got) != 0 {
		t.Errorf("reports of one skill named x = %v, want none", got)
	}
}

func TestWith_KeepsUnchangedEntries(t *testing.T) {
	one, two := upstream(t, "a/one", "x=1", "y=1"), upstream(t, "a/two", "z=1")
	before := catalog.Merge([]catalog.Source{one, two}, options())
	if got := refreshed(before, upstream(t, "a/one", "x=1", "y=1")); got != before {
		t.Error("an unchanged list makes a new catalog")
	}
	after := refreshed(before, upstream(t, "a/one", "x=2", "y=1"))
	for _, name := range []string{"one.y", "two.z"} {
		if before.Lookup(name) != after.Lookup(name) {
			t.Errorf("entry %q was made again", name)
		}
	}
	if text(before.Lookup("one.x"), "title") != "1" || text(after.Lookup("one.x"), "title") != "2" {
		t.Error("entry one.x: the old catalog changed, or the new one did not")
	}
}

// Other sources can remove an entry of a source, but not change it.
func TestExposedName_DependsOnItsOwnUpstreamOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sources := drawSources(t, 3)
		mine := sources[1]
		alone := catalog.Merge([]catalog.Source{mine}, options())
		for _, e := range catalog.Merge(sources, drawOptions(t)).Entries() {
			for _, o := range e.Owners {
				if o.Upstream == mine.Upstream && alone.Lookup(e.Name) == nil {
					t.Fatalf("%q is exposed as %q only beside other sources", o.Name, e.Name)
				}
			}
		}
	})
}

func TestDiff_ReturnsTheChanges(t *testing.T) {
	a := catalog.Merge([]catalog.Source{upstream(t, "a/u", "gone", "kept", "changed=1")}, options())
	b := catalog.Merge([]catalog.Source{upstream(t, "a/u", "kept", "changed=2", "added")}, options())
	type change struct {
		Name          string
		Before, After bool
	}
	var got []change
	for _, c := range catalog.Diff(a, b) {
		got = append(got, change{c.Name(), c.Before != nil, c.After != nil})
	}
	want := []change{{"u.added", false, true}, {"u.changed", true, true}, {"u.gone", true, false}}
	upstreamtest.Equal(t, want, got, "changes")
}

func TestFingerprint_FollowsMeaningNotSpelling(t *testing.T) {
	fingerprint := func(raw, prefix string) catalog.Fingerprint {
		source := catalog.Source{Upstream: "u", Prefix: prefix, Prompts: []*catalog.Prompt{parse(t, raw)}}
		return catalog.Merge([]catalog.Source{source}, options()).Entries()[0].Fingerprint
	}
	base := fingerprint(`{"name":"a","title":"A","n":1}`, "p")
	upstreamtest.Equal(t, base, fingerprint(`{"n": 1, "name":"\u0061","title":"A"}`, "p"), "fingerprint of shuffled members")
	if fingerprint(`{"name":"a","title":"B","n":1}`, "p") == base || fingerprint(`{"name":"a","title":"A","n":1}`, "q") == base {
		t.Error("another definition or name has the same fingerprint")
	}
}

func TestCandidates_AreTheSourcesThatMayExposeAName(t *testing.T) {
	sources := []catalog.Source{
		{Upstream: "bills", Team: "payments", Prefix: "billing"},
		{Upstream: "bills2", Team: "payments", Prefix: "billing"},
		{Upstream: "bare", Team: "search", Prefix: ""},
		{Upstream: "skilled", Team: "search", Prefix: "s", Skills: true},
	}
	candidates := func(name string, want ...string) {
		t.Helper()
		var got []string
		for _, c := range catalog.Candidates(sources, ".", name) {
			got = append(got, c.Source.Upstream+" "+c.Own)
		}
		upstreamtest.Equal(t, want, got, "Candidates(%q)", name)
	}
	candidates("billing.review", "bills review", "bills2 review")
	candidates("review", "bare review")
	candidates("billing", "bare billing")
	candidates("other.review", "bare other.review")
	candidates("billing.") // a prompt without a name of its own
	candidates("s.review", "bare s.review", "skilled review")
	candidates("skill:s.review", "skilled skill:review")
	candidates("skill:review") // the owner of names without a prefix has no skills
	candidates(strings.Repeat("n", 256), "bare "+strings.Repeat("n", 256))
	candidates(strings.Repeat("n", 257))
}
