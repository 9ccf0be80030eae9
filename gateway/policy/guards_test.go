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
		JWTs: []config.JWT{{Name: "corp", Issuer: "https://idp.example.com", As: "corp", Place: place("auth.hcl:9")}},
	}
	c.Gateway.Screens = []config.Screen{
		{Label: "orders", Patterns: []*regexp.Regexp{regexp.MustCompile("ignore")}, Action: config.ScreenReject, Place: place("gateway.hcl:3")},
		{Label: "sizes", MaxSize: 5, Action: config.ScreenWarn},
	}
	c.Teams[0].Lock = config.Locking{Mode: config.LockEnforce, Place: place("payments.hcl:1")}
	c.Lock = config.Lock{{Name: "billing.a", Upstream: "billing"}}
	return c
}

func TestDiffSaysWhatElseDecidesWhoSeesWhat(t *testing.T) {
	enforce := func(at string) config.Locking { return config.Locking{Mode: config.LockEnforce, Place: place(at)} }
	for name, test := range map[string]struct {
		change func(*config.Config)
		want   []policy.Change
	}{
		"nothing": {func(c *config.Config) {
			c.Auth.Tokens[0].Place, c.Auth.JWTs[0].Place, c.Gateway.Screens[0].Label = place("auth.hcl:7"), place("auth.hcl:20"), "other"
		}, nil},
		"what is only reported": {func(c *config.Config) {
			c.Gateway.Screens = c.Gateway.Screens[:1]
			c.Teams[1].Lock = config.Locking{Mode: config.LockWarn}
		}, nil},
		"groups": {func(c *config.Config) { c.Auth.Tokens[0].Groups = []string{"admins"} }, []policy.Change{
			{policy.Less, "auth.hcl:2", "user:bots/ci is not in group:bots/build any more"},
			{policy.More, "auth.hcl:2", "user:bots/ci is in group:bots/admins"},
		}},
		"tokens": {func(c *config.Config) {
			c.Auth.Tokens[0].SHA256 = [32]byte{3}
			c.Auth.Tokens[1].Subject = "new"
		}, []policy.Change{
			{policy.Less, "auth.hcl:5", "user:bots/old has no token any more"},
			{policy.Other, "auth.hcl:2", "user:bots/ci has another token"},
			{policy.More, "auth.hcl:5", "user:bots/new has a token"},
		}},
		"issuers": {func(c *config.Config) {
			c.Auth.JWTs[0].Audience = "x"
			c.Auth.JWTs = append(c.Auth.JWTs, config.JWT{Name: "partner", Place: place("auth.hcl:20")})
			c.Auth.Certificates = &config.Certificates{As: "machines"}
		}, []policy.Change{
			{policy.Other, "auth.hcl:9", `tokens by jwt "corp" are accepted, or stand for callers, otherwise`},
			{policy.More, "auth.hcl:20", `tokens by jwt "partner" are accepted`},
			{policy.More, "", "client certificates are accepted"},
		}},
		"an issuer that goes": {func(c *config.Config) { c.Auth.JWTs = nil }, []policy.Change{
			{policy.Less, "auth.hcl:9", `tokens by jwt "corp" are not accepted any more`},
		}},
		"a lock that goes": {func(c *config.Config) { c.Teams[0].Lock = config.Locking{} }, []policy.Change{
			{policy.More, "payments.hcl:1", `lock = "enforce" of team "payments" is gone: what promptweir.lock.hcl does not approve is not left out any more`},
		}},
		"a lock for all": {func(c *config.Config) { c.Gateway.Lock, c.Teams[0].Lock = enforce("gateway.hcl:1"), config.Locking{} }, []policy.Change{
			{policy.Less, "gateway.hcl:1", `lock = "enforce" of the gateway leaves out what promptweir.lock.hcl does not approve`},
		}},
		"what is approved": {func(c *config.Config) { c.Lock = nil }, []policy.Change{
			{policy.Other, "", "promptweir.lock.hcl approves other definitions: 1 are new, changed or gone"},
		}},
		"screens": {func(c *config.Config) {
			c.Gateway.Screens[0].Patterns = nil
			c.Gateway.Screens[0].Invisible = true
			c.Teams[1].Screens = []config.Screen{{Label: "sizes", MaxSize: 9, Action: config.ScreenStrip, Place: place("search.hcl:7")}}
		}, []policy.Change{
			{policy.More, "gateway.hcl:3", `screen "orders" of the gateway does not reject what it found any more`},
			{policy.Less, "gateway.hcl:3", `screen "orders" of the gateway is to reject what it finds`},
			{policy.Less, "search.hcl:7", `screen "sizes" of team "search" is to strip what it finds`},
		}},
	} {
		after := guarded()
		test.change(after)
		if diff := cmp.Diff(test.want, policy.Diff(guarded(), after)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
