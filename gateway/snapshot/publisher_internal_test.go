package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"weak"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
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
	r := &reloading{t: t, path: filepath.Join(t.TempDir(), "gateway.hcl")}
	var err error
	r.Publisher, err = NewPublisher(r.load(text), Options{NewConnector: func(u config.Upstream, changed func()) *upstream.Connector {
		return upstream.New(u, upstream.Options{}, changed)
	}})
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
	r.publish(t.Context(), g)
	return r
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
	r.replace(r.t.Context(), g)
}

// admittedOf returns the identity of an upstream's admitted list.
func (r *reloading) admittedOf(label string) *catalog.Prompt {
	r.t.Helper()
	for i, u := range r.Current().Upstreams {
		if u.Name == label && len(r.published[i].prompts) > 0 {
			return &r.published[i].prompts[0]
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
	r := newReloading(t, twoTeams("", "", ""), map[string][]string{"a": {"x", "y"}, "b": {"x", "bad"}})
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
