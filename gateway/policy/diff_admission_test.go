package policy_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

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
	checkDiffs(t, "testdata/admission.txtar", guarded, map[string]func(*config.Config){
		"nothing": func(c *config.Config) {
			c.Auth.Tokens[0].Place, c.Auth.JWTs[0].Place, c.Gateway.Screens[0].Label = place("auth.hcl:7"), place("auth.hcl:20"), "other"
		},
		"blocks that only warn": func(c *config.Config) {
			c.Gateway.Screens = c.Gateway.Screens[:1]
			c.Teams[1].Lock = config.LockSetting{Mode: config.LockWarn}
		},
		"groups": func(c *config.Config) { c.Auth.Tokens[0].Groups = []string{"admins"} },
		"tokens": func(c *config.Config) {
			c.Auth.Tokens[0].SHA256 = [32]byte{3}
			c.Auth.Tokens[1].Subject = "new"
		},
		"issuers": func(c *config.Config) {
			c.Auth.JWTs[0].Audience = "x"
			c.Auth.JWTs = append(c.Auth.JWTs, config.JWT{Name: "partner", Place: place("auth.hcl:20")})
			c.Auth.ClientCertificates = &config.ClientCertificates{As: "robots"}
		},
		"issuers removed": func(c *config.Config) { c.Auth.JWTs, c.Auth.ClientCertificates = nil, nil },
		"a lock removed":  func(c *config.Config) { c.Teams[0].Lock, c.Lock = config.LockSetting{}, nil },
		"a lock for all": func(c *config.Config) {
			c.Gateway.Lock, c.Teams[0].Lock, c.Lock = enforce("gateway.hcl:1"), config.LockSetting{}, nil
		},
		"approved definitions": func(c *config.Config) { c.Lock = nil },
		"prompt blocks": func(c *config.Config) {
			c.Teams[0].Overrides = []config.Override{{Prompt: "billing.z", Name: "zz", Place: place("payments.hcl:70")}}
		},
		"screens": func(c *config.Config) {
			c.Gateway.Screens[0].Patterns = nil
			c.Gateway.Screens[0].Invisible = true
			c.Teams[1].Screens = []config.Screen{{Label: "sizes", MaxSize: 9, Action: config.ScreenStrip, Place: place("search.hcl:7")}}
		},
	})
	for name, change := range map[string]func(*config.Screen){
		"another size":    func(s *config.Screen) { s.MaxSize = 9 },
		"invisible":       func(s *config.Screen) { s.Invisible = true },
		"skills":          func(s *config.Screen) { s.Skills = true },
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

var update = flag.Bool("update", false, "rewrite testdata") //nolint:gochecknoglobals // a flag

// checkDiffs compares the report of each change with a file of the archive. It also checks that the other way round, what was
// new is gone.
func checkDiffs(t *testing.T, archive string, before func() *config.Config, changes map[string]func(*config.Config)) {
	t.Helper()
	var got txtar.Archive
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		after := before()
		changes[name](after)
		var report strings.Builder
		signs := map[policy.Sign]int{}
		for _, change := range policy.Diff(before(), after) {
			fmt.Fprintf(&report, "%s %s: %s\n", change.Sign, change.Rule, change.Text)
			signs[change.Sign]++
		}
		got.Files = append(got.Files, txtar.File{Name: name, Data: []byte(report.String())})
		for _, change := range policy.Diff(after, before()) {
			signs[map[policy.Sign]policy.Sign{policy.Added: policy.Removed, policy.Removed: policy.Added}[change.Sign]]--
		}
		if signs[policy.Added] != 0 || signs[policy.Removed] != 0 {
			t.Errorf("%s: the other way round, %d changes fewer are new, and %d fewer are gone", name, signs[policy.Removed], signs[policy.Added])
		}
	}
	checkArchive(t, archive, &got)
}

// checkArchive compares an archive with a file, or rewrites the file.
func checkArchive(t *testing.T, file string, got *txtar.Archive) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, txtar.Format(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if diff := cmp.Diff(string(want), string(txtar.Format(got))); diff != "" || err != nil {
		t.Errorf("%s: %v (-want +got):\n%s", file, err, diff)
	}
}
