package catalog_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

const judged = `
team "a" {
  members = ["user:ann", "user:eve", "user:dan"]
  upstream "one" {
    url = "https://one.example.com"
  }
  upstream "two" {
    url = "https://two.example.com"
  }
  expose "two" {
    prompts = ["*"]
    to      = ["user:bob"]
    when    = prompt.upstream == "two"
  }
  hide "one" {
    prompts = ["*"]
    when    = prompt.upstream == "one" && principal.subject == "user:dan"
  }
  hide "two" {
    prompts = ["*"]
    when    = prompt.upstream == "two" && contains(["user:dan", "user:eve"], principal.subject)
  }
}
`

// Who sees an entry may depend on which of its owners serves it.
func TestEntry_IsJudgedByEachOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	if err := os.WriteFile(path, []byte(judged), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, diags := config.Load(path, config.Options{})
	if err := diags.Err(); err != nil {
		t.Fatal(err)
	}
	judge := policy.New(cfg)
	entry := func(by ...string) *catalog.Entry {
		opts := options()
		opts.Decide = func(e *catalog.Entry) (decided []*policy.Visibility) {
			for _, upstream := range by {
				decided = append(decided, judge.Visibility(e.Team, upstream, e.Name, e.Facts()))
			}
			return decided
		}
		return catalog.Merge([]catalog.Source{upstream(t, "a/one prefix=p", "x"), upstream(t, "a/two prefix=p", "x")}, opts).Lookup("p.x")
	}
	each, alike := entry("one", "two"), entry("one")
	type seen struct{ owners, shownBy, hiddenBy string }
	for _, test := range []struct {
		who   string
		entry *catalog.Entry
		want  seen
	}{
		{"user:ann", each, seen{"one two ", `team "a"`, ""}},
		{"user:eve", each, seen{"one ", `team "a"`, `hide "two"`}},
		{"user:bob", each, seen{"two ", `expose "two"`, ""}},
		{"user:dan", each, seen{"", "", `hide "one"`}},
		{"user:max", each, seen{}},
		{"user:eve", alike, seen{"one two ", `team "a"`, ""}},
		{"user:ann", entry(), seen{owners: "one two "}},
	} {
		audience, got := judge.Audience(policy.Principal{Subject: test.who}), seen{}
		ended, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		if err := test.entry.Decide(ended, audience); test.entry == each && test.want.shownBy == `team "a"` && !errors.Is(err, policy.ErrBudget) {
			t.Errorf("%s: at the end of a request the error is %v", test.who, err)
		}
		upstreamtest.Equal(t, test.want.shownBy != "", test.entry.VisibleTo(audience), "%s sees it", test.who)
		for _, owner := range test.entry.OwnersFor(audience) {
			got.owners += owner.Upstream + " "
		}
		if rule, _ := audience.ShownBy(test.entry.VisibilityTo(audience)); rule != nil {
			got.shownBy = rule.Title
		}
		if rule := test.entry.HiddenBy(audience); rule != nil {
			got.hiddenBy = rule.Title
		}
		if got != test.want {
			t.Errorf("%s: %+v, want %+v", test.who, got, test.want)
		}
	}
}

func TestDiff_HasOwnersThatChanged(t *testing.T) {
	for what, change := range map[string]func(*catalog.Source){
		"the team":     func(s *catalog.Source) { s.Team = "b" },
		"the upstream": func(s *catalog.Source) { s.Upstream = "v" },
		"the place":    func(s *catalog.Source) { s.Place = "b.hcl:1" },
		"the own name": func(s *catalog.Source) {
			s.Prefix, s.Prompts = "", []*catalog.Prompt{parse(t, `{"name":"u.x","title":""}`)}
		},
	} {
		source := upstream(t, "a/u", "x")
		before := catalog.Merge([]catalog.Source{source}, options())
		source = upstream(t, "a/u", "x")
		change(&source)
		got := catalog.Diff(before, catalog.Merge([]catalog.Source{source}, options()))
		if len(got) != 1 || got[0].Before == nil || got[0].After == nil || !cmp.Equal(got[0].Before.Fingerprint, got[0].After.Fingerprint) {
			t.Errorf("%s: %+v", what, got)
		}
	}
}
