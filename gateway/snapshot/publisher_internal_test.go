package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// reloading is a publisher whose configuration changes. It contacts no upstream, but has saved lists in their place. The
// test's goroutine stands in for that of Run.
type reloading struct {
	*Publisher

	t    *testing.T
	path string
}

func newReloading(t *testing.T, text string, lists map[string][]string) *reloading {
	t.Helper()
	return newReloadingReplica(t, text, lists, false)
}

// newReloadingReplica is newReloading for a publisher that may have other replicas.
func newReloadingReplica(t *testing.T, text string, lists map[string][]string, replicated bool) *reloading {
	t.Helper()
	r := &reloading{t: t, path: filepath.Join(t.TempDir(), "gateway.hcl")}
	var err error
	r.Publisher, err = NewPublisher(r.load(text), Options{
		Replicated: replicated,
		NewConnector: func(u config.Upstream, changed func()) *upstream.Connector {
			return upstream.New(u, upstream.Options{}, changed)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	g := r.Current().Generation
	for label, names := range lists {
		var definitions []jsontext.Value
		for _, name := range names {
			definitions = append(definitions, jsontext.Value(fmt.Sprintf(`{"name":%q}`, name)))
		}
		g.saved[label] = List{Definitions: definitions}
	}
	r.builder.publish(t.Context(), g)
	r.settle()
	return r
}

// announce announces changes beside the test, as Run does.
func (r *reloading) announce() {
	go func() { _ = r.announceChanges(r.t.Context()) }()
}

// settle publishes until every list is admitted.
func (r *reloading) settle() {
	for slices.ContainsFunc(r.builder.published, func(p published) bool { return p.running != nil }) {
		<-r.changed.wake
		r.builder.publish(r.t.Context(), r.Current().Generation)
	}
}

func (r *reloading) load(text string) *config.Config {
	r.t.Helper()
	if err := os.WriteFile(r.path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	cfg, diags := config.Load(r.path, config.Options{})
	if err := diags.Err(); err != nil {
		r.t.Fatal(err)
	}
	return cfg
}

// reload puts another configuration into use.
func (r *reloading) reload(text string) {
	r.t.Helper()
	g, err := r.NewGeneration(r.load(text))
	if err != nil {
		r.t.Fatal(err)
	}
	r.builder.replace(r.t.Context(), r.prepare(r.t.Context(), g))
	r.settle()
}

// admittedOf returns an upstream's admitted list.
func (r *reloading) admittedOf(label string) *admitted {
	r.t.Helper()
	for i, u := range r.Current().Upstreams {
		if list := r.builder.published[i].list; u.Name == label && list != nil && len(list.prompts) > 0 {
			return list
		}
	}
	r.t.Fatalf("no list of %s is admitted", label)
	return nil
}

// twoTeams is a configuration with settings of the gateway, of one team, and of the other.
func twoTeams(gateway, one, two string) string {
	return fmt.Sprintf(`gateway { %s }
team "one" {
  members = ["user:ann"]
  upstream "a" { url = "http://127.0.0.1:1/a" }
  %s
}
team "two" {
  members = ["user:bob"]
  upstream "b" { url = "http://127.0.0.1:1/b" }
  %s
}
`, gateway, one, two)
}

func reloadingTwoTeams(t *testing.T) *reloading {
	t.Helper()
	return reloadingReplica(t, false)
}

func reloadingReplica(t *testing.T, replicated bool) *reloading {
	t.Helper()
	r := newReloadingReplica(t, twoTeams("", "", ""), map[string][]string{"a": {"x", "y"}, "b": {"x", "bad"}}, replicated)
	if n := len(r.Current().Catalog.Entries()); n != 4 {
		t.Fatalf("%d entries, want 4", n)
	}
	return r
}

func TestReplace_KeepsTheCatalogIfNothingAboutPromptsChanges(t *testing.T) {
	r := reloadingTwoTeams(t)
	before, a, b := r.Current(), r.admittedOf("a"), r.admittedOf("b")
	r.reload(twoTeams("page_size = 7", "", ""))
	after := r.Current()
	if after == before || after.Config.Gateway.PageSize != 7 {
		t.Fatal("the new configuration is not published")
	}
	if after.Catalog != before.Catalog || !slices.Equal(after.Catalog.Entries(), before.Catalog.Entries()) {
		t.Error("the catalog was built again")
	}
	if r.admittedOf("a") != a || r.admittedOf("b") != b {
		t.Error("definitions were admitted again")
	}
	if after.Policy != before.Policy || after.Sealer != before.Sealer {
		t.Error("the policy or the sealer was made again")
	}
	if !slices.Equal(after.Connectors, before.Connectors) {
		t.Error("connectors were made again")
	}
}

func TestReplace_LetsGoOfTheGenerationThatTheCatalogWasMergedFor(t *testing.T) {
	r := reloadingTwoTeams(t)
	r.announce()
	merged, before := r.Current().Catalog, weak.Make(r.Current().Generation)
	for i := range 3 {
		r.reload(twoTeams(fmt.Sprintf("page_size = %d", i+1), "", ""))
	}
	if r.Current().Catalog != merged {
		t.Fatal("the catalog was built again")
	}
	upstreamtest.Eventually(t, "the generation is gone", func() bool {
		runtime.GC()
		return before.Value() == nil
	})
	runtime.KeepAlive(r) // which has the catalog
}

func TestReplace_AdmitsOnlyTheListsOfTheTeamThatChanges(t *testing.T) {
	r := reloadingTwoTeams(t)
	before, a, b := r.Current(), r.admittedOf("a"), r.admittedOf("b")
	r.reload(twoTeams("", "", `screen "bad" { patterns = ["bad"] }`))
	after := r.Current()
	if r.admittedOf("a") != a {
		t.Error("the definitions of the team that did not change were admitted again")
	}
	if r.admittedOf("b") == b || after.Catalog.Lookup("b.bad") != nil {
		t.Error("the definitions of the team that changed were not admitted again")
	}
	for _, name := range []string{"a.x", "a.y"} {
		if entry := after.Catalog.Lookup(name); entry == nil || entry != before.Catalog.Lookup(name) {
			t.Errorf("the entry %s was made again", name)
		}
	}
	if after.Policy != before.Policy {
		t.Error("the policy was made again")
	}
}

func TestReplace_MakesAnotherPolicyIfARuleChanges(t *testing.T) {
	r := reloadingTwoTeams(t)
	before, a, b := r.Current(), r.admittedOf("a"), r.admittedOf("b")
	r.reload(twoTeams("", `hide "x" { prompts = ["a.x"] }`, ""))
	after := r.Current()
	if after.Policy == before.Policy {
		t.Error("the policy is still the previous one")
	}
	for _, entry := range after.Catalog.Entries() {
		if entry == before.Catalog.Lookup(entry.Name) {
			t.Errorf("the entry %s still has its visibility from the previous policy", entry.Name)
		}
	}
	if r.admittedOf("a") != a || r.admittedOf("b") != b {
		t.Error("definitions were admitted again, although a rule plays no part in that")
	}
}

func TestReplace_PublishesNoListThatOtherRulesAdmitted(t *testing.T) {
	r := reloadingTwoTeams(t)
	g, err := r.NewGeneration(r.load(twoTeams("", "", `screen "bad" { patterns = ["bad"] }`)))
	if err != nil {
		t.Fatal(err)
	}
	kept := g.kept(r.Current().Generation)
	r.builder.inlineBound = 0
	r.builder.replace(t.Context(), replacement{next: g, kept: kept, lists: make([]*admitted, len(g.Upstreams))}) // as when it takes too long
	s := r.Current()
	if s.Catalog.Lookup("b.bad") != nil || s.Catalog.Lookup("b.x") != nil || s.Catalog.Lookup("a.x") == nil {
		t.Errorf("before the list is admitted, the catalog has %d entries, want those of the other team", len(s.Catalog.Entries()))
	}
	if s.AllTried() || s.Listed(1) {
		t.Error("an upstream without an admitted list counts as listed")
	}
	r.settle()
	if s := r.Current(); s.Catalog.Lookup("b.x") == nil || s.Catalog.Lookup("b.bad") != nil || !s.Listed(1) {
		t.Error("the list was not admitted by the new rules")
	}
}

// A command that waits until an upstream was tried would else go on before its list is in the catalog.
func TestShown_CountsAsTriedOnceTheListIsAdmitted(t *testing.T) {
	r := reloadingTwoTeams(t)
	g := r.Current().Generation
	list := func(text string) []jsontext.Value { return []jsontext.Value{jsontext.Value(text)} }
	first := &upstream.State{Lists: 1, Listed: true, Tried: true, Definitions: list(`{"name":"x","title":"1"}`)}
	second := &upstream.State{Lists: 2, Listed: true, Tried: true, Definitions: list(`{"name":"x","title":"2"}`)}
	var p published
	if s := g.shown(0, &p, first); s.Tried || s.Listed {
		t.Errorf("before its list is admitted: %+v", s)
	}
	offered, _ := g.offer(0, first)
	var err error
	if p.list, err = g.admission.admitOffer(t.Context(), &g.sources[0], offered, nil); err != nil {
		t.Fatal(err)
	}
	if s := g.shown(0, &p, first); s != first {
		t.Errorf("once its list is admitted: %+v", s)
	}
	if s := g.shown(0, &p, second); !s.Tried || !sameList(s.Definitions, first.Definitions) {
		t.Errorf("before its second list is admitted: %+v", s)
	}
}

// A panic over one upstream's list is that upstream's problem: what was admitted stays until it offers something else.
func TestPublish_KeepsTheLastListAfterAPanic(t *testing.T) {
	for name, inline := range map[string]time.Duration{"quick": time.Minute, "slow": 0} {
		t.Run(name, func(t *testing.T) {
			r := reloadingTwoTeams(t)
			r.builder.inlineBound = inline
			g := r.Current().Generation
			at := g.index["a"]
			offer := func(names ...string) {
				for i := range r.builder.published { // or the next list would wait
					r.builder.published[i].pace = pace{}
				}
				for _, label := range []string{"a", "b"} {
					var definitions []jsontext.Value
					for _, name := range names {
						definitions = append(definitions, jsontext.Value(fmt.Sprintf(`{"name":%q}`, name)))
					}
					g.saved[label] = List{Definitions: definitions}
					r.changed.add(label)
				}
				r.builder.publish(t.Context(), g)
				r.settle()
			}
			want := func(problem bool, names ...string) {
				t.Helper()
				s := r.Current()
				for _, name := range names {
					if s.Catalog.Lookup(name) == nil {
						t.Errorf("%s is not in the catalog", name)
					}
				}
				if n := len(s.Catalog.Entries()); n != len(names) || (s.States[at].Problem != nil) != problem {
					t.Errorf("%d entries and the problem %v, want %d, and one: %t", n, s.States[at].Problem, len(names), problem)
				}
			}
			list := r.builder.published[at].list
			judged := list.judged
			list.judged = nil // whoever looks for what is known of its definitions panics
			offer("x", "new")
			want(true, "a.x", "a.y", "b.x", "b.new")
			r.changed.add("a")
			r.builder.publish(t.Context(), g)
			if r.builder.published[at].running != nil {
				t.Error("the same is tried again")
			}
			list.judged = judged
			offer("x", "newer")
			want(false, "a.x", "a.newer", "b.x", "b.newer")
		})
	}
}

// A list that is quick to admit is in the snapshot that says that it was listed; one that is not leaves the snapshot as it
// was.
func TestPublish_ShowsAListOnceItIsAdmitted(t *testing.T) {
	for name, test := range map[string]struct {
		inline time.Duration
		want   string
	}{"quick": {time.Minute, "a.new"}, "slow": {0, "a.x"}} {
		t.Run(name, func(t *testing.T) {
			r := reloadingTwoTeams(t)
			r.builder.inlineBound = test.inline
			for i := range r.builder.published { // the first list may have taken long, and the next one would wait
				r.builder.published[i].pace = pace{}
			}
			g := r.Current().Generation
			g.saved["a"] = List{Definitions: []jsontext.Value{jsontext.Value(`{"name":"new"}`)}}
			r.changed.add("a")
			r.builder.publish(t.Context(), g)
			if r.Current().Catalog.Lookup(test.want) == nil {
				t.Errorf("%s is not in the catalog", test.want)
			}
			r.settle()
			if r.Current().Catalog.Lookup("a.new") == nil {
				t.Error("the list is not in the catalog in the end")
			}
		})
	}
}

// While a list is admitted, the snapshot tells of the one that is in its catalog.
func TestShown_TellsOfTheListInTheCatalog(t *testing.T) {
	r := reloadingTwoTeams(t)
	g := r.Current().Generation
	first, second := []jsontext.Value{jsontext.Value(`{"name":"1"}`)}, []jsontext.Value{jsontext.Value(`{"name":"2"}`)}
	state := func(lists uint64, definitions []jsontext.Value) *upstream.State {
		return &upstream.State{Lists: lists, Listed: lists > 0, Tried: true, Definitions: definitions}
	}
	of := func(definitions []jsontext.Value, listed bool) *admitted {
		return &admitted{offer: offer{definitions: definitions, listed: listed}}
	}
	for name, test := range map[string]struct {
		list   *admitted
		state  *upstream.State
		listed bool
		want   []jsontext.Value
	}{
		"none, a list":                 {nil, state(1, first), false, nil},
		"a saved one, a list":          {of(first, false), state(1, second), false, nil},
		"a listed one, the same":       {of(first, true), state(1, first), true, first},
		"a listed one, another list":   {of(first, true), state(2, second), true, first},
		"after a reload, of the rules": {nil, state(2, second), false, nil},
	} {
		p := published{list: test.list, tried: true}
		got := g.shown(0, &p, test.state)
		if got.Listed != test.listed || !sameList(got.Definitions, test.want) || !got.Tried {
			t.Errorf("%s: %+v, want listed = %t, %s", name, got, test.listed, test.want)
		}
	}
}

func TestReplace_PublishesNoListOfAnotherServer(t *testing.T) {
	r := reloadingTwoTeams(t)
	r.reload(strings.Replace(twoTeams("", "", ""), "127.0.0.1:1/b", "127.0.0.1:2/b", 1))
	if s := r.Current(); s.Catalog.Lookup("b.x") != nil || s.Catalog.Lookup("a.x") == nil {
		t.Error("the list of the earlier server is still published")
	}
}

// Only what a change concerns is judged anew, in a later list and by a later configuration.
func TestAdmit_JudgesOnlyWhatChanged(t *testing.T) {
	r := newReloading(t, twoTeams("", "", ""), map[string][]string{"a": {"x", "y", "z"}})
	first := r.admittedOf("a")
	g := r.Current().Generation
	later := slices.Clone(first.definitions)
	later[1] = jsontext.Value(`{"name":"y","title":"new"}`)
	later[0], later[2] = later[2], later[0]
	second, err := g.admission.admit(t.Context(), &g.sources[0], later, first)
	if err != nil {
		t.Fatal(err)
	}
	if second.judged[0] != first.judged[2] || second.judged[1] == first.judged[1] || second.judged[2] != first.judged[0] {
		t.Error("want only the definition that changed to be judged again")
	}
	for block, want := range map[string][]bool{ // which definitions are judged again
		`prompt "a.y" { title = "Why" }`:           {false, true, false},
		`screen "s" { invisible = true }`:          {true, true, true},
		`hide "h" { prompts = ["a.x"] }`:           {false, false, false},
		`lock = "warn"`:                            {true, true, true},
		`limit { rate = 7 }`:                       {false, false, false},
		"\n\n# which moves the other team's lines": {false, false, false},
	} {
		g, err := r.NewGeneration(r.load(twoTeams("", block, "")))
		if err != nil {
			t.Fatal(err)
		}
		list, err := g.admission.admit(t.Context(), &g.sources[0], first.definitions, first)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			upstreamtest.Equal(t, want[i], list.judged[i] != first.judged[i],
				"%s: definition %d judged again", block, i)
			if list.judged[i].sent != first.judged[i].sent {
				t.Errorf("%s: definition %d was parsed again", block, i)
			}
		}
	}
}

// An upstream whose skills are not served any more may be down: its earlier list stands in.
func TestAdmit_ReadsDefinitionsAnewWhereSkillsAreNotServedAnyMore(t *testing.T) {
	r := newReloading(t, twoTeams("", "", ""), map[string][]string{"a": {"x"}})
	g := r.Current().Generation
	source := g.sources[0]
	skill := []jsontext.Value{jsontext.Value(`{"uri":"skill://x/SKILL.md","frontmatter":{"name":"x","description":"D"},"resources":"dynamic"}`)}
	source.Skills = true
	first, err := g.admission.admit(t.Context(), &source, skill, nil)
	if err != nil || len(first.prompts) != 1 {
		t.Fatalf("admit = prompts %v, reports %v, %v, want the skill", first.prompts, first.reports, err)
	}
	source.Skills = false
	second, err := g.admission.admit(t.Context(), &source, skill, first)
	if err != nil || len(second.prompts) != 0 || len(second.reports) != 1 {
		t.Errorf("admit = prompts %v, reports %v, %v, want one report only", second.prompts, second.reports, err)
	}
}

func TestAdmit_EndsWithItsContext(t *testing.T) {
	r := newReloading(t, twoTeams("", "", ""), map[string][]string{"a": {"x", "y", "z"}})
	g, first := r.Current().Generation, r.admittedOf("a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if list, err := g.admission.admit(ctx, &g.sources[0], first.definitions, nil); list != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("admit = %v, %v", list, err)
	}
}

func TestPace_GrowsWhileAListKeepsChanging(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	const cost = 2 * time.Second
	var p pace
	now := start
	for i, seconds := range []float64{2, 4, 8, 16, 32, 32} {
		p = p.after(now, now.Add(cost))
		if got := p.due().Sub(p.ended); got.Seconds() != seconds {
			t.Errorf("after admission %d it waits %v, want %v s", i+1, got, seconds)
		}
		now = p.due()
	}
	p = p.after(now.Add(16*cost), now.Add(17*cost)) // quiet for as long as it waited
	upstreamtest.Equal(t, cost, p.due().Sub(p.ended), "after a quiet time it waits")
}

// What subscribers see of a snapshot may take long to find out. Publishing does not wait for that, and nobody misses a change.
func TestPublish_DoesNotWaitForTheViewsOfSubscribers(t *testing.T) {
	for name, reloads := range map[string]int{"few": 3, "more than wait": 2*maxWaiting + 1} {
		t.Run(name, func(t *testing.T) {
			r := reloadingTwoTeams(t)
			bob, eve := r.Subscribe(policy.Principal{Subject: "user:bob"}), r.Subscribe(policy.Principal{Subject: "user:eve"})
			defer bob.Close()
			defer eve.Close()
			for i := range reloads { // the last hides a prompt from bob that the one before shows
				hide := ""
				if i%2 == 0 {
					hide = `hide "x" { prompts = ["b.x"] }`
				}
				r.reload(twoTeams("", "", hide))
			}
			woken := func(sub *Subscription) bool { return len(sub.Changed()) == 1 }
			if woken(bob) || woken(eve) {
				t.Error("a subscription was woken although nobody announces changes")
			}
			r.announce()
			upstreamtest.Eventually(t, "bob is told", func() bool { return woken(bob) })
			late := r.Subscribe(policy.Principal{Subject: "user:bob"})
			defer late.Close()
			r.reload(twoTeams("", "", ""))
			upstreamtest.Eventually(t, "one who came later is told of what came after", func() bool { return woken(late) })
			if want := reloads > maxWaiting; woken(eve) != want {
				t.Errorf("one for whom nothing changes is told: %t, want %t", woken(eve), want)
			}
		})
	}
}
