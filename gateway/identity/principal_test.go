package identity_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
)

func TestParsePrincipal_ReadsUserAndGroups(t *testing.T) {
	tests := []struct {
		as   string
		want policy.Principal
	}{
		{"user:alice", policy.Principal{Subject: "user:alice"}},
		{"user:alice,group:payments", policy.Principal{Subject: "user:alice", Groups: []string{"group:payments"}}},
		{"group:a, user:corp/alice@example.com ,group:b", policy.Principal{
			Subject: "user:corp/alice@example.com", Groups: []string{"group:a", "group:b"},
		}},
		{"user:anonymous", anonymous()},
	}
	for _, test := range tests {
		got, err := identity.ParsePrincipal(test.as)
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("ParsePrincipal(%q): %v (-want +got):\n%s", test.as, err, diff)
		}
	}
}

func TestParsePrincipal_ExplainsMistakes(t *testing.T) {
	tests := []struct{ as, want string }{
		{"", `"" is neither a user nor a group: write one user:NAME`},
		{"alice", `"alice" is neither a user nor a group: write one user:NAME`},
		{"user:", `"user:" is neither a user nor a group: write one user:NAME`},
		{"User:alice", `"User:alice" is neither a user nor a group: write one user:NAME`},
		{"user:alice,", `"" is neither a user nor a group: write one user:NAME`},
		{"user:alice group:payments", `"user:alice group:payments" is neither a user nor a group: write one user:NAME`},
		{"user:alice,user:bob", `"user:alice" and "user:bob" are two users: write one user:NAME`},
		{"user:alice,team:payments", `"team:payments" cannot be given, because teams follow from the user and the groups: write`},
		{"*", `"*" is not a single caller: write one user:NAME`},
		{"user:anonymous,group:payments", "user:anonymous is a caller without a credential, who is in no group: leave out"},
	}
	for _, test := range tests {
		got, err := identity.ParsePrincipal(test.as)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("ParsePrincipal(%q) = %+v, %v, want an error with %q", test.as, got, err, test.want)
		}
	}
}

func TestNamedPrincipal_IsCompletedByTheConfiguration(t *testing.T) {
	none, tokens := &config.Config{}, &config.Config{Auth: &config.Auth{}}
	issuer := &config.Config{Auth: &config.Auth{JWTs: []config.JWT{{As: "corp"}}}}
	const claims = `{"dept":"payments"}`
	tests := []struct {
		cfg        *config.Config
		as, claims string
		want       policy.Principal
	}{
		{none, "user:alice", "", policy.Principal{Subject: "user:alice", EveryTeam: true}},
		{tokens, "user:alice", "", policy.Principal{Subject: "user:alice"}},
		{tokens, "user:alice", claims, policy.Principal{Subject: "user:alice", Claims: claims}},
		{issuer, "user:corp/alice", "", policy.Principal{Subject: "user:corp/alice", ClaimsUnknown: true}},
		{issuer, "user:corp/alice", claims, policy.Principal{Subject: "user:corp/alice", Claims: claims}},
		{issuer, "user:alice", "", policy.Principal{Subject: "user:alice"}}, // no issuer can name her
		{tokens, "group:support, group:ops", "", policy.Principal{Subject: "somebody in group:support,group:ops", Groups: []string{"group:support", "group:ops"}}},
		{issuer, "group:corp/support", "", policy.Principal{Subject: "somebody in group:corp/support", Groups: []string{"group:corp/support"}, ClaimsUnknown: true}},
	}
	for _, test := range tests {
		got, err := identity.NamedPrincipal(test.cfg, test.as, test.claims)
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("NamedPrincipal(%q, %q): %v (-want +got):\n%s", test.as, test.claims, err, diff)
		}
	}
	if got, err := identity.NamedPrincipal(none, "alice", ""); err == nil || !cmp.Equal(got, policy.Principal{}) {
		t.Errorf("NamedPrincipal of a bad text: %+v, %v", got, err)
	}
}
