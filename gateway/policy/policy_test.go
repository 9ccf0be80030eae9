package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// company is a configuration with a gateway-wide hide and four teams, one of which owns nothing.
func company() *config.Config {
	return &config.Config{
		Auth:  &config.Auth{Anonymous: true},
		Hides: []config.Rule{rule("gateway.hcl:9", "no debug prompts", "*.debug_*")},
		Teams: []config.Team{
			{
				Name:      "payments",
				Members:   selectors("group:payments", "user:alice"),
				Upstreams: []config.Upstream{{Name: "billing", Place: place("payments.hcl:4")}, {Name: "notes"}},
				Exposes: []config.Rule{
					rule("payments.hcl:20", "reviews for everyone", "billing.review_*", "*"),
					rule("payments.hcl:21", "invoices", "billing.invoice", "team:search", "user:bob"),
					rule("payments.hcl:22", "whatever search does", "web.*", "*"),
					rule("payments.hcl:23", "sorry, hidden", "notes.wip_*", "user:bob"),
				},
				Hides: []config.Rule{
					rule("payments.hcl:30", "half-finished", "notes.wip_*"),
					rule("payments.hcl:31", "none of ours", "web.ours"),
				},
				Place: place("payments.hcl:1"),
			},
			{
				Name:      "search",
				Members:   selectors("group:search"),
				Upstreams: []config.Upstream{{Name: "web"}},
				Exposes:   []config.Rule{rule("search.hcl:5", "for the readers", "web.read*", "team:readers", "group:auditors")},
				Place:     place("search.hcl:1"),
			},
			{Name: "readers", Members: selectors("user:rita"), Exposes: []config.Rule{rule("readers.hcl:2", "", "*", "*")}},
			{
				Name: "open", Members: selectors("user:eve", "user:anonymous"),
				Upstreams: []config.Upstream{{Name: "door"}}, Place: place("open.hcl:1"),
			},
		},
	}
}

func rule(at, label, prompts string, to ...string) config.Rule {
	return config.Rule{Label: label, Prompts: []config.Pattern{pattern(prompts)}, To: selectors(to...), Place: place(at)}
}

func pattern(s string) config.Pattern {
	p, err := config.ParsePattern(s)
	if err != nil {
		panic(err)
	}
	return p
}

func selectors(texts ...string) (all []config.Selector) {
	for _, text := range texts {
		selector, err := config.ParseSelector(text)
		if err != nil {
			panic(err)
		}
		all = append(all, selector)
	}
	return all
}

func place(at string) config.Place {
	file, line, _ := strings.Cut(at, ":")
	number := 0
	for _, digit := range line {
		number = 10*number + int(digit-'0')
	}
	return config.Place{File: file, Line: number}
}

// principal reads "alice,payments" as user:alice in group:payments.
func principal(s string) policy.Principal {
	switch s {
	case "anonymous":
		return policy.Principal{Subject: policy.AnonymousSubject, Anonymous: true}
	case "everybody":
		return policy.Principal{Subject: policy.AnonymousSubject, Anonymous: true, EveryTeam: true}
	}
	names := strings.Split(s, ",")
	who := policy.Principal{Subject: "user:" + names[0]}
	for _, group := range names[1:] {
		who.Groups = append(who.Groups, "group:"+group)
	}
	return who
}

// decidedBy returns the place of the rule that the audit log has.
func decidedBy(audience *policy.Audience, v *policy.Visibility) string {
	rule, _ := audience.ShownBy(v)
	if rule == nil {
		rule = audience.HiddenBy(v)
	}
	if rule == nil {
		return ""
	}
	return rule.Place
}

func TestSees_FollowsMembershipExposeAndHide(t *testing.T) {
	p := policy.New(company())
	ask := func(want bool, who, team, upstream, name, rule string) {
		t.Helper()
		upstreamtest.Equal(t, want, p.Audience(principal(who)).Sees(p.Visibility(team, upstream, name, nil)), "%s sees %s", who, name)
		if got := decidedBy(p.Audience(principal(who)), p.Visibility(team, upstream, name, nil)); got != rule {
			t.Errorf("%s sees %s or not by %q, want %q", who, name, got, rule)
		}
		if got := p.Explain(principal(who), team, upstream, name, nil); got.Visible != want || got.Rule != rule {
			t.Errorf("Explain(%s, %s) = %v by %q (%s), want %v by %q", who, name, got.Visible, got.Rule, got.Reason, want, rule)
		}
	}
	// The owner of most entries here is the upstream with which their name begins.
	teamOf := map[string]string{"billing": "payments", "notes": "payments", "web": "search", "door": "open"}
	upstreamOf := func(name string) string { upstream, _, _ := strings.Cut(name, "."); return upstream }
	allow := func(who, name, rule string) {
		t.Helper()
		ask(true, who, teamOf[upstreamOf(name)], upstreamOf(name), name, rule)
	}
	deny := func(who, name, rule string) {
		t.Helper()
		ask(false, who, teamOf[upstreamOf(name)], upstreamOf(name), name, rule)
	}

	// Members see everything of their team, by name or by group; others nothing.
	allow("alice", "billing.secret", "payments.hcl:1")
	allow("carol,payments", "billing.secret", "payments.hcl:1")
	allow("alice", "notes.todo", "payments.hcl:1")
	deny("bob", "billing.secret", "")
	deny("bob,search", "billing.secret", "")
	deny("payments", "billing.secret", "")
	deny("dave,alice", "billing.secret", "")
	deny("alice", "web.find", "")
	allow("bob,search", "web.find", "search.hcl:1")

	// Expose adds: everybody, a user, a team's members, a group.
	allow("bob", "billing.review_x", "payments.hcl:20")
	allow("anonymous", "billing.review_x", "payments.hcl:20")
	allow("alice", "billing.review_x", "payments.hcl:1")
	allow("bob", "billing.invoice", "payments.hcl:21")
	allow("sam,search", "billing.invoice", "payments.hcl:21")
	deny("rita", "billing.invoice", "")
	deny("search", "billing.invoice", "")
	deny("anonymous", "billing.invoice", "")
	allow("rita", "web.readme", "search.hcl:5")
	allow("x,auditors", "web.readme", "search.hcl:5")
	deny("rita", "web.find", "")

	// Hide beats membership and expose; the gateway's beats the team's.
	deny("alice", "notes.wip_1", "payments.hcl:30")
	deny("bob", "notes.wip_1", "payments.hcl:30")
	deny("everybody", "notes.wip_1", "payments.hcl:30")
	deny("alice", "billing.debug_x", "gateway.hcl:9")
	deny("alice", "notes.wip_.debug_", "gateway.hcl:9")
	deny("rita", "web.readme.debug_", "gateway.hcl:9")

	// A team's blocks apply only to its own prompts, regardless of their patterns.
	deny("bob", "web.find", "")
	deny("anonymous", "web.find", "")
	allow("sam,search", "web.ours", "search.hcl:1")

	// The owner decides, not the name.
	ask(true, "alice", "payments", "notes", "web.find", "payments.hcl:1")
	ask(true, "anonymous", "payments", "notes", "web.find", "payments.hcl:22")
	ask(false, "alice", "payments", "notes", "web.ours", "payments.hcl:31")
	ask(false, "sam,search", "payments", "notes", "billing.secret", "")
	ask(true, "sam,search", "search", "web", "billing.secret", "search.hcl:1")
	ask(false, "alice", "search", "web", "billing.secret", "")

	// Callers without a credential are in no team; without an auth block everybody is in every team.
	allow("eve", "door.knock", "open.hcl:1")
	deny("anonymous", "door.knock", "")
	allow("everybody", "door.knock", "open.hcl:1")
	allow("everybody", "billing.secret", "payments.hcl:1")

	// Nobody sees what the configuration does not have.
	ask(false, "everybody", "gone", "gone", "gone.x", "")
	ask(false, "everybody", "payments", "gone", "gone.x", "")
	ask(false, "sam,search", "search", "billing", "billing.review_x", "")
	ask(false, "rita", "readers", "", "readers.x", "")
}

// TestPolicy_AgreesWithTheConfiguration holds what conditions decide. If one cannot be evaluated, a hide block hides and an
// expose block shows nothing.
func TestWhen_ReportsAFailureOnceForEachBlock(t *testing.T) {
	whens := conditions(t, `principal.claims.tier == "gold"`, `try(prompt.meta.internal, false)`)
	expose, hide := rule("p.hcl:6", "gold", "billing.report_*", "*"), rule("p.hcl:9", "internal", "*")
	expose.When, hide.When = whens[0], whens[1]
	var failures []policy.Failure
	p := policy.New(&config.Config{Teams: []config.Team{{
		Name: "payments", Members: selectors("user:alice"), Upstreams: []config.Upstream{{Name: "billing"}}, Place: place("p.hcl:1"),
		Exposes: []config.Rule{expose}, Hides: []config.Rule{hide},
	}}}).ReportFailures(func(f policy.Failure) { failures = append(failures, f) })
	for _, test := range []struct {
		want                                bool
		who, claims, name, definition, rule string
	}{
		{true, "bob", `{"tier":"gold"}`, "billing.report_x", `{}`, "p.hcl:6"},
		{false, "bob", `{"tier":"tin"}`, "billing.report_x", `{}`, ""},
		{false, "alice", "", "billing.y", `{"_meta":{"internal":true}}`, "p.hcl:9"},
		{false, "bob", "", "billing.report_x", `{}`, ""},
		{false, "bob,other", `{"x":1}`, "billing.report_y", `{}`, ""},
		{false, "alice", "", "billing.y", `{"_meta":{"internal":[]}}`, "p.hcl:9"},
	} {
		caller := principal(test.who)
		caller.Claims = test.claims
		visibility := p.Visibility("payments", "billing", test.name, []byte(test.definition))
		explained := p.Explain(caller, "payments", "billing", test.name, []byte(test.definition))
		if got := p.Audience(caller).Sees(visibility); got != test.want || explained.Visible != got || explained.Rule != test.rule {
			t.Errorf("%+v: seen: %t, explained as %+v", test, got, explained)
		}
	}
	want := []string{"p.hcl:6 : unsupported attribute", "p.hcl:9 billing.y: "}
	for i, f := range failures {
		if got := fmt.Sprintf("%s %s: %v", f.Rule, f.Prompt, f.Err); i >= len(want) || !strings.HasPrefix(got, want[i]) {
			t.Errorf("failure %q", got)
		}
	}
	upstreamtest.Equal(t, len(want), len(failures), "failures, one for each block: %v", failures)
	// Principals differ only by the attributes that conditions read.
	gold, golden := principal("x"), principal("x")
	gold.Claims, golden.Claims = `{"tier":"gold","n":1}`, `{"n":2,"tier":"gold"}`
	if p.Audience(gold) != p.Audience(golden) || p.Audience(gold) == p.Audience(principal("x")) {
		t.Error("a claim that no when reads makes two audiences of one, or principals with different tiers share one")
	}
}

func TestSeesTeam_CountsMembershipAndExposes(t *testing.T) {
	p := policy.New(company())
	tests := []struct {
		who  string
		want string
	}{
		{"everybody", "payments search open"},
		{"anonymous", "payments"},
		{"bob", "payments"},
		{"alice", "payments"},
		{"eve", "payments open"},
		{"rita", "payments search"},
		{"sam,search", "payments search"},
	}
	for _, test := range tests {
		var sees []string
		for _, team := range []string{"payments", "search", "readers", "open", "no such team"} {
			if p.Audience(principal(test.who)).SeesTeam(team) {
				sees = append(sees, team)
			}
		}
		upstreamtest.Equal(t, test.want, strings.Join(sees, " "), "the teams of which %s sees something", test.who)
	}
}

func TestSees_IsFalseAcrossPolicies(t *testing.T) {
	before, after := policy.New(company()), policy.New(company())
	alice, visibility := before.Audience(principal("alice")), after.Visibility("payments", "billing", "billing.x", nil)
	if alice.Sees(visibility) {
		t.Error("an audience of the policy before a reload sees an entry of the one after it")
	}
	if alice.Sees(nil) {
		t.Error("a nil Visibility shows something")
	}
}

func TestSees_IsFalseForMalformedPrincipals(t *testing.T) {
	p := policy.New(company())
	visibility := p.Visibility("payments", "billing", "billing.secret", nil)
	for _, who := range []policy.Principal{
		{},
		{Subject: "alice"},
		{Subject: "group:payments"},
		{Subject: "user:x", Groups: []string{"payments", "user:alice", "team:payments", "*"}},
	} {
		if p.Audience(who).Sees(visibility) {
			t.Errorf("%+v passes for a member", who)
		}
	}
}

// Groups are no part of a key. A token labelled anonymous has another key than callers without one.
func TestKey_TellsPrincipalsApart(t *testing.T) {
	alice, bob, grouped := principal("alice"), principal("bob"), principal("alice,payments")
	issued, certified := alice, alice
	issued.Source, certified.Source = "0123456789ab", "certificate"
	all := []policy.Principal{alice, bob, issued, certified, principal("anonymous"), {Subject: policy.AnonymousSubject}}
	keys := map[string]bool{"": true, " ": true, issued.Source: true, issued.Source + " ": true, " " + issued.Subject: true}
	others := len(keys)
	for _, who := range append(all, grouped) {
		keys[who.Key()] = true
	}
	upstreamtest.Equal(t, len(all), len(keys)-others, "keys of the principals: %v", keys)
	for _, who := range all {
		for key := range keys {
			if got := who.HasKey(key); got != (key == who.Key()) {
				t.Errorf("HasKey(%q) of %+v = %t, its key is %q", key, who, got, who.Key())
			}
		}
	}
}

func TestAudience_TellsPrincipalsOfOneSubjectApart(t *testing.T) {
	untitled := rule("a.hcl:1", "", "*", "*")
	untitled.When = conditions(t, `try(principal.claims.tier, "none") == "none"`)[0]
	p := policy.New(&config.Config{Auth: &config.Auth{}, Teams: []config.Team{
		{Name: "a", Upstreams: []config.Upstream{{Name: "u"}}, Members: selectors("user:anonymous")},
		{Name: "b", Upstreams: []config.Upstream{{Name: "v"}}, Exposes: []config.Rule{untitled}},
	}})
	for range 2 {
		for _, is := range []bool{true, false} {
			if got := p.Audience(policy.Principal{Subject: "user:anonymous", Anonymous: is}).Member("a"); got == is {
				t.Errorf("anonymous: %v, a member: %v", is, got)
			}
			sees := p.Audience(policy.Principal{Subject: "user:x", ClaimsUnknown: is}).Sees(p.Visibility("b", "v", "x", []byte("{}")))
			if sees == is {
				t.Errorf("claims are unknown: %v, what depends on them is seen: %v", is, sees)
			}
		}
	}
}

func TestPolicy_KnowsWhatItsConditionsRead(t *testing.T) {
	for when, readsUpstream := range map[string]bool{`prompt.upstream == "web"`: true, `principal.subject == "user:alice"`: false} {
		for _, blocks := range []func(*config.Config) []config.Rule{
			func(c *config.Config) []config.Rule { return c.Hides },
			func(c *config.Config) []config.Rule { return c.Teams[0].Hides },
			func(c *config.Config) []config.Rule { return c.Teams[0].Exposes },
		} {
			cfg := company()
			block := &blocks(cfg)[0]
			block.When, block.Prompts = conditions(t, when)[0], []config.Pattern{pattern("billing.x")}
			p := policy.New(cfg)
			if p.EvaluatesNothing() != readsUpstream || p.ReadsUpstream("payments", "billing.x") != readsUpstream || p.ReadsUpstream("payments", "y") {
				t.Errorf("when = %s of %s: it evaluates nothing: %t", when, block.Place.File, p.EvaluatesNothing())
			}
		}
	}
	cfg := company()
	cfg.Hides[0].When = conditions(t, `principal.subject == "user:alice"`)[0]
	p := policy.New(cfg)
	audience, visibility := p.Audience(principal("alice")), p.Visibility("payments", "billing", "billing.debug_x", []byte("{}"))
	if audience.Sees(visibility) || audience.HiddenBy(visibility) == nil {
		t.Error("what is hidden from one principal is not hidden by a rule")
	}
}

// Decisions are made for each entry of a new view and for each get, nearly always for a principal that called before.
func TestSees_AllocatesNothing(t *testing.T) {
	p, who := policy.New(company()), principal("carol,payments,auditors,staff")
	visibility := p.Visibility("payments", "billing", "billing.invoice", nil)
	upstreamtest.Equal(t, 0, upstreamtest.Allocs(t, func() { p.Audience(who).Sees(visibility) }), "allocations of a decision")
}
