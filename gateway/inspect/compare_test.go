package inspect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// variants returns configurations that differ in visibility.
func variants(t *testing.T) []*config.Config {
	const tokens = `token "x" { sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" }`
	texts := []string{
		"", // only members see prompts
		gatewaytest.Expose("all", `"*"`, `"*"`),
		gatewaytest.Expose("a", `"*.a"`, `"user:ann", "group:g"`),
		gatewaytest.Expose("a", `"*.a"`, `"group:g"`) + gatewaytest.Expose("b", `"one.*"`, `"user:ann", "team:eng"`),
		gatewaytest.Expose("all", `"*"`, `"*"`) + "hide \"b\" {\n prompts = [\"*.b\"]\n}\n",
		gatewaytest.Expose("team", `"two.*"`, `"team:other"`),
		gatewaytest.Expose("all", `"two.c"`, `"*"`) + "prompt \"two.b\" {\n name = \"two.c\"\n}\n",
		"expose \"when\" {\n prompts = [\"*\"]\n to = [\"*\"]\n when = prompt.name == \"two.a\"\n}\n",
	}
	var all []*config.Config
	for i, text := range texts {
		prefix, members := "", `"user:mia"`
		if i%2 == 1 {
			prefix, members = "prefix = \"uno\"", `"user:mia", "group:m"`
			text = strings.ReplaceAll(text, "one.", "uno.")
		}
		all = append(all, gatewaytest.Load(t, fmt.Sprintf(`auth {
  %s
}
team "eng" {
  members = [%s]
  upstream "one" {
    command = ["no-such-command"]
    %s
  }
  upstream "two" { command = ["no-such-command"] }
  %s
}
team "other" { members = ["user:olaf"] }
`, tokens, members, prefix, text)))
	}
	return all
}

func evaluated(t *testing.T, cfg *config.Config) *snapshot.Snapshot {
	t.Helper()
	var prompts []config.LockedPrompt
	for _, u := range cfg.Upstreams() {
		for _, own := range []string{"a", "b"} {
			locked, err := config.NewLockedPrompt(u.Prefix+"."+own, u.Name, []byte("{}"))
			if err != nil {
				t.Fatal(err)
			}
			prompts = append(prompts, locked)
		}
	}
	lists := snapshot.LockedLists(cfg, config.NewLock(prompts))
	s, err := publish.Evaluate(t.Context(), cfg, lists, publish.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// seen returns the exposed names of the prompts that a principal sees, by upstream and own name.
func seen(t *testing.T, s *snapshot.Snapshot, as string) map[string]string {
	t.Helper()
	who, err := identity.ParsePrincipal(as)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, entry := range inspect.Entries(s, &who) {
		for _, owner := range entry.Owners {
			names[owner.Upstream+" "+owner.Name] = entry.Name
		}
	}
	return names
}

// Compare summarises all principals at once. For each of them, that must be the difference between their two views.
func TestCompare_EqualsTheDifferenceOfEachCallersViews(t *testing.T) {
	all := variants(t)
	for i, before := range all {
		for j, after := range all {
			was, is := evaluated(t, before), evaluated(t, after)
			c := inspect.Compare(was, is)
			if (i == j) != (len(c.Changes)+len(c.Prompts) == 0) || len(c.Unknown) > 0 {
				t.Errorf("from variant %d to %d: %+v", i, j, c)
			}
			for _, as := range []string{"user:mia", "user:ann", "user:olaf", "user:x,group:g", "user:x,group:m", "user:nobody", "user:anonymous"} {
				want, got := difference(seen(t, was, as), seen(t, is, as)), changesFor(c, strings.Split(as, ","))
				upstreamtest.Equal(t, want, got, "comparison of variants %d and %d for %s", i, j, as)
			}
		}
	}
}

func difference(was, is map[string]string) (all []string) {
	for key, name := range was {
		if is[key] == "" {
			all = append(all, "hidden "+name)
		}
	}
	for key, name := range is {
		if was[key] == "" {
			all = append(all, "exposed "+name)
		}
	}
	slices.Sort(all)
	return all
}

// changesFor returns the changes that a comparison has for a principal with these selectors. If it names the principal
// apart from everybody else, the name counts.
func changesFor(c inspect.Comparison, selectors []string) (all []string) {
	named := func(in []string) bool {
		return slices.ContainsFunc(selectors, func(s string) bool { return slices.Contains(in, s) })
	}
	for _, p := range c.Prompts {
		if p.Kind != inspect.Renamed && (named(p.To) || slices.Contains(p.To, "*") && !named(p.But)) {
			all = append(all, p.Kind+" "+p.Name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
