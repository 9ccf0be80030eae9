package publish

import (
	"context"
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
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// reloading is a publisher whose configuration changes. It contacts no upstream, but has saved lists in their place. The
// test's goroutine stands in for Run's.
type reloading struct {
	*Publisher

	t    *testing.T
	path string
}

// newReloading returns such a publisher, which may have other replicas.
func newReloading(t *testing.T, text string, lists map[string][]string, replicated bool) *reloading {
	t.Helper()
	r := &reloading{t: t, path: filepath.Join(t.TempDir(), "gateway.hcl")}
	var err error
	r.Publisher, err = New(r.load(text), Options{
		Replicated: replicated,
		NewConnector: func(u config.Upstream, changed func()) Connector {
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
		g.Saved[label] = snapshot.List{Definitions: definitions}
	}
	r.settle()
	return r
}

// announce announces changes beside the test, as Run does.
func (r *reloading) announce() {
	go func() { _ = r.announceChanges(r.t.Context()) }()
}

// settle publishes until every list is admitted.
func (r *reloading) settle() {
	for {
		for i := range r.builder.slots {
			r.builder.slots[i].rested = time.Time{} // or the next list would wait
		}
		r.builder.publish(r.t.Context(), r.Current().Generation)
		if !slices.ContainsFunc(r.builder.slots, func(u upstreamSlot) bool { return u.running != nil }) {
			return
		}
		<-r.changed
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
	r.replace(g, r.readmit(r.t.Context(), g, r.builder.lists(r.Current().Generation, g)))
	r.settle()
}

// replace puts a generation into use with slots, as [Publisher.Replace] does.
func (r *reloading) replace(g *snapshot.Generation, slots []upstreamSlot) {
	r.builder.replace(slots)
	r.builder.publish(r.t.Context(), g)
}

// admittedOf returns an upstream's admitted list.
func (r *reloading) admittedOf(label string) *admitted {
	r.t.Helper()
	for i, u := range r.Current().Upstreams {
		if list := r.builder.slots[i].list; u.Name == label && list != nil && len(list.prompts) > 0 {
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

func reloadingTwoTeams(t *testing.T, replicated bool) *reloading {
	t.Helper()
	r := newReloading(t, twoTeams("", "", ""), map[string][]string{"a": {"x", "y"}, "b": {"x", "bad"}}, replicated)
	if n := len(r.Current().Catalog.Entries()); n != 4 {
		t.Fatalf("%d entries, want 4", n)
	}
	return r
}

func TestReplace_KeepsAdmittedListsAndConnectorsIfNothingAboutPromptsChanges(t *testing.T) {
	r := reloadingTwoTeams(t, false)
	for _, text := range []string{twoTeams("page_size = 7", "", ""), twoTeams("", `hide "x" { prompts = ["a.x"] }`, "")} {
		before, a, b := r.Current(), r.admittedOf("a"), r.admittedOf("b")
		r.reload(text)
		after := r.Current()
		if after.Generation == before.Generation {
			t.Fatal("the new configuration is not published")
		}
		if !slices.Equal(r.admittedOf("a").decisions, a.decisions) || !slices.Equal(r.admittedOf("b").decisions, b.decisions) {
			t.Error("definitions were admitted again")
		}
		if after.Sealer != before.Sealer || !slices.Equal(after.Connectors, before.Connectors) {
			t.Error("the sealer or connectors were made again")
		}
		for _, entry := range after.Catalog.Entries() {
			if entry == before.Catalog.Lookup(entry.Name) {
				t.Errorf("the entry %s still has its visibility from the previous policy", entry.Name)
			}
		}
	}
}

func TestReplace_LetsGoOfEarlierGenerations(t *testing.T) {
	r := reloadingTwoTeams(t, false)
	r.announce()
	defer r.Subscribe(policy.Principal{Subject: "user:bob"}).Close()
	before := weak.Make(r.Current().Generation)
	for i := range 3 {
		r.reload(twoTeams(fmt.Sprintf("page_size = %d", i+1), "", ""))
	}
	upstreamtest.Eventually(t, "the generation is gone", func() bool {
		runtime.GC()
		return before.Value() == nil
	})
	runtime.KeepAlive(r)
}

func TestReplace_PublishesNoListThatOtherRulesAdmitted(t *testing.T) {
	r := reloadingTwoTeams(t, false)
	g, err := r.NewGeneration(r.load(twoTeams("", "", `screen "bad" { patterns = ["bad"] }`)))
	if err != nil {
		t.Fatal(err)
	}
	slots := r.readmit(t.Context(), g, nil)
	slots[1] = upstreamSlot{state: withListOf(&upstream.State{}, slots[1].state)} // as when it takes too long
	r.replace(g, slots)
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

func TestReplace_PublishesNoListOfAnotherServer(t *testing.T) {
	r := reloadingTwoTeams(t, false)
	r.reload(strings.Replace(twoTeams("", "", ""), "127.0.0.1:1/b", "127.0.0.1:2/b", 1))
	if s := r.Current(); s.Catalog.Lookup("b.x") != nil || s.Catalog.Lookup("a.x") == nil {
		t.Error("the list of the earlier server is still published")
	}
}

// Only the definitions that a change concerns are decided again, in a later list and by a later configuration.
func TestAdmit_DecidesOnlyWhatChanged(t *testing.T) {
	r := newReloading(t, twoTeams("", "", ""), map[string][]string{"a": {"x", "y", "z"}}, false)
	first := r.admittedOf("a")
	g := r.Current().Generation
	later := slices.Clone(first.definitions)
	later[1] = jsontext.Value(`{"name":"y","title":"new"}`)
	later[0], later[2] = later[2], later[0]
	second, err := r.admission(g).admit(t.Context(), &g.Sources[0], later, first)
	if err != nil {
		t.Fatal(err)
	}
	if second.decisions[0] != first.decisions[2] || second.decisions[1] == first.decisions[1] || second.decisions[2] != first.decisions[0] {
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
		list, err := r.admission(g).admit(t.Context(), &g.Sources[0], first.definitions, first)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			upstreamtest.Equal(t, want[i], list.decisions[i] != first.decisions[i],
				"%s: definition %d judged again", block, i)
			if list.decisions[i].sent != first.decisions[i].sent {
				t.Errorf("%s: definition %d was parsed again", block, i)
			}
		}
	}
}

// An upstream whose skills are not served any more may be down: its earlier list stands in.
func TestAdmit_ReadsDefinitionsAnewWhereSkillsAreNotServedAnyMore(t *testing.T) {
	r := newReloading(t, twoTeams("", "", ""), map[string][]string{"a": {"x"}}, false)
	g := r.Current().Generation
	source := g.Sources[0]
	skill := []jsontext.Value{jsontext.Value(`{"uri":"skill://x/SKILL.md","frontmatter":{"name":"x","description":"D"},"resources":"dynamic"}`)}
	source.Skills = true
	first, err := r.admission(g).admit(t.Context(), &source, skill, nil)
	if err != nil || len(first.prompts) != 1 {
		t.Fatalf("admit = prompts %v, reports %v, %v, want the skill", first.prompts, first.reports, err)
	}
	source.Skills = false
	second, err := r.admission(g).admit(t.Context(), &source, skill, first)
	if err != nil || len(second.prompts) != 0 || len(second.reports) != 1 {
		t.Errorf("admit = prompts %v, reports %v, %v, want one report only", second.prompts, second.reports, err)
	}
}

// panicking is a context with which screens panic.
type panicking struct{ context.Context }

func (panicking) Done() <-chan struct{} { panic("out of range") }

func TestAdmit_LeavesOutWhatCausesAPanic(t *testing.T) {
	r := newReloading(t, twoTeams("", `screen "s" { invisible = true }`, ""), nil, false)
	g := r.Current().Generation
	list, err := r.admission(g).admit(panicking{t.Context()}, &g.Sources[0], []jsontext.Value{jsontext.Value(`{"name":"x"}`)}, nil)
	if err != nil || len(list.prompts) != 0 || len(list.reports) != 1 {
		t.Errorf("admit = %v, %v, want one report only", list, err)
	}
}

// The views of subscribers may take long to build. Publishing does not wait for them, and no subscriber misses a change.
func TestPublish_DoesNotWaitForTheViewsOfSubscribers(t *testing.T) {
	for name, reloads := range map[string]int{"few": 3, "more than wait": 2*maxWaiting + 1} {
		t.Run(name, func(t *testing.T) {
			r := reloadingTwoTeams(t, false)
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
			upstreamtest.Equal(t, reloads > maxWaiting, woken(eve), "one for whom nothing changes is told")
		})
	}
}
