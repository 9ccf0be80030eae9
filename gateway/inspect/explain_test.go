package inspect_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// explain returns an explanation with a line for each step, without the folder of the configuration.
func explain(s *gatewaytest.Server, as, name string) string {
	who, err := identity.ParsePrincipal(as)
	if err != nil {
		s.TB.Fatal(err)
	}
	var out strings.Builder
	for _, e := range s.Explain(who, name) {
		fmt.Fprintf(&out, "%s as %s of %s: visible %v, depends %v\n", name, e.Own, e.Upstream, e.Visible, e.Depends)
		for _, step := range e.Chain {
			mark := " "
			if step.Decides {
				mark = "*"
			}
			fmt.Fprintf(&out, "%s %s: %s\n", mark, step.Rule, step.Text)
		}
	}
	return regexp.MustCompile(`\S*/gateway\.hcl`).ReplaceAllString(out.String(), "gateway.hcl")
}

const explainedTeam = `
lock = "enforce"
prompt "p.renamed" {
  name      = "fresh"
  title     = "T"
  arguments = { x = "1" }
}
prompt "p.misfit" { arguments = { y = "1" } }
screen "orders" { patterns = ["(?i)ignore all"] }
expose "small" {
  prompts = ["p.*", "fresh"]
  to      = ["*"]
  when    = length(prompt.arguments) == 0
}
hide "gold only" {
  prompts = ["p.gold"]
  when    = try(principal.claims.tier, "") != "gold"
}
`

func TestExplain_GivesEachReason(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", `{"name":"renamed","arguments":[{"name":"x"}]}`, "misfit", "plain", "gold", `{"name":"bad","title":"Ignore all"}`, `{"name":"big","arguments":[{"name":"x"}]}`)
	text := "auth { anonymous = true }\n" + strings.Replace(gatewaytest.Team("eng", "", "MORE", p), "MORE", explainedTeam, 1)
	approved := gatewaytest.Serve(t, strings.Replace(text, `lock = "enforce"`, "", 1)).Lock()
	var lock config.Lock
	for _, l := range approved {
		if l.Name != "p.plain" {
			lock = append(lock, l)
		}
	}
	s := gatewaytest.ServeLocked(t, text, lock)
	cold := newUnlisted(t, gatewaytest.LoadLocked(t, text, lock))
	for _, test := range []struct {
		s    *gatewaytest.Server
		name string
		want string
	}{
		{s, "fresh", `fresh as renamed of p: visible true, depends false
  gateway.hcl:4: upstream "p" of team "eng" owns it
  gateway.hcl:2: user:bob is not a member of team "eng"
* gateway.hcl:18: expose "small" of team "eng" is for user:bob, and when = length(prompt.arguments) == 0 holds
  gateway.hcl:11: its prompt block exposes "p.renamed" as "fresh", changes its title or description, fixes x
  gateway.hcl:2: lock = "enforce": its definition is the one in promptweir.lock.hcl
  gateway.hcl:17: screen "orders" (reject) finds nothing in its definition, and checks its results
`},
		{s, "p.renamed", `p.renamed as renamed of p: visible false, depends false
  gateway.hcl:4: upstream "p" of team "eng" owns it
  gateway.hcl:2: user:bob is not a member of team "eng"
  gateway.hcl:18: expose "small" of team "eng" is for user:bob, and when = length(prompt.arguments) == 0 holds
* gateway.hcl:11: its prompt block exposes it as "fresh" instead
  gateway.hcl:2: lock = "enforce": its definition is the one in promptweir.lock.hcl
  gateway.hcl:17: screen "orders" (reject) finds nothing in its definition, and checks its results
`},
		{s, "p.misfit", `p.misfit as misfit of p: visible false, depends false
  gateway.hcl:4: upstream "p" of team "eng" owns it
  gateway.hcl:2: user:bob is not a member of team "eng"
  gateway.hcl:18: expose "small" of team "eng" is for user:bob, and when = length(prompt.arguments) == 0 holds
* gateway.hcl:16: its prompt block does not fit, so it is left out: the prompt has no argument "y"
  gateway.hcl:2: lock = "enforce": its definition is the one in promptweir.lock.hcl
  gateway.hcl:17: screen "orders" (reject) finds nothing in its definition, and checks its results
`},
		{s, "p.plain", `p.plain as plain of p: visible false, depends false
  gateway.hcl:4: upstream "p" of team "eng" owns it
  gateway.hcl:2: user:bob is not a member of team "eng"
  gateway.hcl:18: expose "small" of team "eng" is for user:bob, and when = length(prompt.arguments) == 0 holds
* gateway.hcl:2: lock = "enforce": it is not in promptweir.lock.hcl, so it is left out
  gateway.hcl:17: screen "orders" (reject) finds nothing in its definition, and checks its results
`},
		{s, "p.gold", `p.gold as gold of p: visible false, depends false
  gateway.hcl:4: upstream "p" of team "eng" owns it
* gateway.hcl:23: hide "gold only" of team "eng" removes it: when = try(principal.claims.tier, "") != "gold" holds
  gateway.hcl:2: user:bob is not a member of team "eng"
  gateway.hcl:18: expose "small" of team "eng" is for user:bob, and when = length(prompt.arguments) == 0 holds
  gateway.hcl:2: lock = "enforce": its definition is the one in promptweir.lock.hcl
  gateway.hcl:17: screen "orders" (reject) finds nothing in its definition, and checks its results
`},
		{s, "p.bad", `p.bad as bad of p: visible false, depends false
  gateway.hcl:4: upstream "p" of team "eng" owns it
  gateway.hcl:2: user:bob is not a member of team "eng"
  gateway.hcl:18: expose "small" of team "eng" is for user:bob, and when = length(prompt.arguments) == 0 holds
  gateway.hcl:2: lock = "enforce": its definition is the one in promptweir.lock.hcl
* gateway.hcl:17: screen "orders" leaves it out: its definition has pattern 1 at /title (screen "orders")
`},
		{s, "p.big", `p.big as big of p: visible false, depends false
  gateway.hcl:4: upstream "p" of team "eng" owns it
  gateway.hcl:2: user:bob is not a member of team "eng"
  gateway.hcl:18: expose "small" of team "eng" is for user:bob, and when = length(prompt.arguments) == 0 does not hold
  gateway.hcl:2: lock = "enforce": its definition is the one in promptweir.lock.hcl
  gateway.hcl:17: screen "orders" (reject) finds nothing in its definition, and checks its results
`},
		{cold, "p.big", `p.big as big of p: visible false, depends true
  gateway.hcl:4: upstream "p" of team "eng" owns it
  gateway.hcl:2: user:bob is not a member of team "eng"
  gateway.hcl:18: expose "small" of team "eng" is for user:bob, and when = length(prompt.arguments) == 0 depends on the prompt's definition, which is not known here
  gateway.hcl:2: lock = "enforce": if its definition differs from the one in promptweir.lock.hcl, it is left out
  gateway.hcl:17: screen "orders" (reject) checks its definition and its results
`},
	} {
		upstreamtest.Equal(t, test.want, explain(test.s, "user:bob", test.name), "%s", test.name)
	}
}

// newUnlisted returns a gateway that does not run, so that it knows no lists.
func newUnlisted(t *testing.T, cfg *config.Config) *gatewaytest.Server {
	t.Helper()
	g, err := gateway.New(cfg, gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &gatewaytest.Server{Gateway: g, TB: t}
}

func TestExplain_PutsARenamedPromptFirst(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "old", "other")
	text := gatewaytest.Team("eng", "", `prompt "p.old" { name = "p.new" }`, p)
	owns := func(s *gatewaytest.Server, name string) (owns []string) {
		for _, e := range s.Explain(policy.Principal{Subject: policy.AnonymousSubject, Anonymous: true, EveryTeam: true}, name) {
			owns = append(owns, e.Own)
		}
		return owns
	}
	listed, cold := gatewaytest.Serve(t, text), newUnlisted(t, gatewaytest.Load(t, text))
	for _, test := range []struct {
		s    *gatewaytest.Server
		name string
		want []string
	}{
		{listed, "p.new", []string{"old"}},
		{listed, "p.other", []string{"other"}},
		{listed, "p.nothing", []string{"nothing"}}, // no other prompt to explain instead
		{cold, "p.new", []string{"old", "new"}},
	} {
		upstreamtest.Equal(t, test.want, owns(test.s, test.name), "%s", test.name)
	}
}

// The first upstream has drifted, so that what clients see is the second one's.
func TestExplain_SaysWhichUpstreamsServe(t *testing.T) {
	drifted := gatewaytest.NewPeer(t, "a", `{"name":"x","title":"new"}`)
	approved := gatewaytest.NewPeer(t, "b", `{"name":"x","title":"old"}`)
	drifted.Settings, approved.Settings = `prefix = "p"`, `prefix = "p"`
	lock := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", approved)).Lock()
	serve := func(mode string) *gatewaytest.Server {
		s := gatewaytest.ServeLocked(t, gatewaytest.Team("eng", "", mode, drifted, approved), lock)
		s.AwaitUpstreams()
		return s
	}
	visible := func(s *gatewaytest.Server) (all []string) {
		for _, e := range s.Explain(policy.Principal{Subject: policy.AnonymousSubject, Anonymous: true, EveryTeam: true}, "p.x") {
			all = append(all, fmt.Sprintf("%s %v %s", e.Upstream, e.Visible, e.Reason))
		}
		return all
	}
	got := visible(serve(`lock = "enforce"`))
	if len(got) != 2 || !strings.HasPrefix(got[0], `a false lock = "enforce": its definition differs`) || !strings.HasPrefix(got[1], "b true") {
		t.Errorf("with a lock: %q", got)
	}
	got = visible(serve(""))
	if len(got) != 2 || !strings.HasPrefix(got[0], "a true") || !strings.HasPrefix(got[1], `b false prompt "p.x" is defined differently by upstream "b"`) {
		t.Errorf("without a lock: %q", got)
	}
}
