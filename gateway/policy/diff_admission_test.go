package policy_test

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

// guarded is a company with tokens, an issuer, locks and screens.
func guarded() *config.Config {
	c := company()
	c.Auth = &config.Auth{
		Tokens: []config.Token{
			{Subject: "ci", SHA256: [32]byte{1}, Groups: []string{"build"}, As: "bots", Place: place("auth.hcl:2")},
			{Subject: "old", SHA256: [32]byte{2}, As: "bots", Place: place("auth.hcl:5")},
		},
		JWTs:               []config.JWT{{Name: "corp", Issuer: "https://idp.example.com", As: "corp", Place: place("auth.hcl:9")}},
		ClientCertificates: &config.ClientCertificates{As: "machines"},
	}
	c.Gateway.Screens = []config.Screen{
		{Label: "orders", Patterns: []*regexp.Regexp{regexp.MustCompile("ignore")}, Action: config.ScreenReject, Place: place("gateway.hcl:3")},
		{Label: "sizes", MaxSize: 5, Action: config.ScreenWarn},
	}
	c.Teams[0].Lock = config.LockSetting{Mode: config.LockEnforce, Place: place("payments.hcl:1")}
	c.Lock = config.Lock{{Name: "billing.a", Upstream: "billing"}}
	c.Teams[0].Overrides = []config.Override{{Prompt: "billing.y", Name: "y", Place: place("payments.hcl:50")}, {Prompt: "billing.z", Name: "z", Place: place("payments.hcl:60")}}
	return c
}

func TestDiff_ReportsAuthLocksAndScreens(t *testing.T) {
	enforce := func(at string) config.LockSetting {
		return config.LockSetting{Mode: config.LockEnforce, Place: place(at)}
	}
	for name, test := range map[string]struct {
		change func(*config.Config)
		want   []policy.Change
	}{
		"nothing": {func(c *config.Config) {
			c.Auth.Tokens[0].Place, c.Auth.JWTs[0].Place, c.Gateway.Screens[0].Label = place("auth.hcl:7"), place("auth.hcl:20"), "other"
		}, nil},
		"blocks that only warn": {func(c *config.Config) {
			c.Gateway.Screens = c.Gateway.Screens[:1]
			c.Teams[1].Lock = config.LockSetting{Mode: config.LockWarn}
		}, nil},
		"groups": {func(c *config.Config) { c.Auth.Tokens[0].Groups = []string{"admins"} }, []policy.Change{
			{policy.Less, "auth.hcl:2", "user:bots/ci is no longer in group:bots/build"},
			{policy.More, "auth.hcl:2", "user:bots/ci is in group:bots/admins"},
		}},
		"tokens": {func(c *config.Config) {
			c.Auth.Tokens[0].SHA256 = [32]byte{3}
			c.Auth.Tokens[1].Subject = "new"
		}, []policy.Change{
			{policy.Less, "auth.hcl:5", "user:bots/old no longer has a token"},
			{policy.Other, "auth.hcl:2", "user:bots/ci has a different token"},
			{policy.More, "auth.hcl:5", "user:bots/new has a token"},
		}},
		"issuers": {func(c *config.Config) {
			c.Auth.JWTs[0].Audience = "x"
			c.Auth.JWTs = append(c.Auth.JWTs, config.JWT{Name: "partner", Place: place("auth.hcl:20")})
			c.Auth.ClientCertificates = &config.ClientCertificates{As: "robots"}
		}, []policy.Change{
			{policy.Other, "auth.hcl:9", `jwt "corp" has different settings: it may accept other tokens or identify callers differently`},
			{policy.More, "auth.hcl:20", `tokens of jwt "partner" are accepted`},
			{policy.Other, "", `client certificates identify other callers: as = "robots" instead of "machines"`},
		}},
		"issuers removed": {func(c *config.Config) { c.Auth.JWTs, c.Auth.ClientCertificates = nil, nil }, []policy.Change{
			{policy.Less, "auth.hcl:9", `tokens of jwt "corp" are no longer accepted`},
			{policy.Less, "", "client certificates are no longer accepted"},
		}},
		"a lock removed": {func(c *config.Config) { c.Teams[0].Lock, c.Lock = config.LockSetting{}, nil }, []policy.Change{
			{policy.More, "payments.hcl:1", `lock = "enforce" of team "payments" is removed: prompts that promptweir.lock.hcl does not approve are no longer left out`},
		}},
		"a lock for all": {func(c *config.Config) {
			c.Gateway.Lock, c.Teams[0].Lock, c.Lock = enforce("gateway.hcl:1"), config.LockSetting{}, nil
		}, []policy.Change{
			{policy.Less, "gateway.hcl:1", `lock = "enforce" of the gateway leaves out prompts that promptweir.lock.hcl does not approve`},
		}},
		"approved definitions": {func(c *config.Config) { c.Lock = nil }, []policy.Change{
			{policy.Other, "", "promptweir.lock.hcl approves different definitions: 1 are added, changed or removed"},
		}},
		"prompt blocks": {func(c *config.Config) {
			c.Teams[0].Overrides = []config.Override{{Prompt: "billing.z", Name: "zz", Place: place("payments.hcl:70")}}
		}, []policy.Change{
			{policy.Other, "payments.hcl:70", `prompt "billing.z" of team "payments" is renamed: "zz" instead of "z"`},
			{policy.Other, "payments.hcl:50", `prompt "billing.y" of team "payments" is renamed: "billing.y" instead of "y"`},
		}},
		"screens": {func(c *config.Config) {
			c.Gateway.Screens[0].Patterns = nil
			c.Gateway.Screens[0].Invisible = true
			c.Teams[1].Screens = []config.Screen{{Label: "sizes", MaxSize: 9, Action: config.ScreenStrip, Place: place("search.hcl:7")}}
		}, []policy.Change{
			{policy.More, "gateway.hcl:3", `screen "orders" of the gateway is no longer in effect: action = "reject"`},
			{policy.Less, "gateway.hcl:3", `screen "orders" of the gateway takes effect: action = "reject"`},
			{policy.Less, "search.hcl:7", `screen "sizes" of team "search" takes effect: action = "strip"`},
		}},
	} {
		checkDiff(t, name, guarded, test.change, test.want)
	}
	for name, change := range map[string]func(*config.Screen){
		"another size":    func(s *config.Screen) { s.MaxSize = 9 },
		"invisible":       func(s *config.Screen) { s.Invisible = true },
		"well-formed":     func(s *config.Screen) { s.WellFormed = true },
		"another action":  func(s *config.Screen) { s.Action = config.ScreenStrip },
		"another pattern": func(s *config.Screen) { s.Patterns = nil },
	} {
		after := guarded()
		change(&after.Gateway.Screens[0])
		if changes := policy.Diff(guarded(), after); len(changes) != 2 {
			t.Errorf("%s: %v, want one screen in the place of another", name, changes)
		}
	}
}

// checkDiff also checks that the other way round, what was more is less.
func checkDiff(t *testing.T, name string, before func() *config.Config, change func(*config.Config), want []policy.Change) {
	t.Helper()
	after := before()
	change(after)
	if diff := cmp.Diff(want, policy.Diff(before(), after)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
	signs := map[policy.Sign]int{}
	for _, change := range want {
		signs[change.Sign]++
	}
	for _, change := range policy.Diff(after, before()) {
		signs[map[policy.Sign]policy.Sign{policy.More: policy.Less, policy.Less: policy.More}[change.Sign]]--
	}
	if signs[policy.More] != 0 || signs[policy.Less] != 0 {
		t.Errorf("%s: the other way round, %d changes fewer show less, and %d fewer show more", name, signs[policy.More], signs[policy.Less])
	}
}
