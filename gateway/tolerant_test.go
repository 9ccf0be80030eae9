package gateway_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestReload_ATeamsMistakeHoldsUpNobodyElse(t *testing.T) {
	a, b, c := gatewaytest.NewPeer(t, "one", "x", "y"), gatewaytest.NewPeer(t, "two", "z"), gatewaytest.NewPeer(t, "one", "other")
	f := newPromptFolder(t, "gateway {}\nauth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n")
	members := `"user:ann"`
	goodA := gatewaytest.Team("a", members, gatewaytest.Expose("all", `"*"`, `"*"`), a)
	f.write("a.hcl", goodA)
	f.write("b.hcl", gatewaytest.Team("b", members, "", b))
	load := func(inUse config.TeamFiles) (*config.Config, []config.Kept, config.Diagnostics) {
		return config.LoadTolerant(f.dir, config.Options{}, inUse)
	}
	cfg, _, diags := load(nil)
	if err := diags.Err(); err != nil {
		t.Fatal(err)
	}
	var log gatewaytest.Log
	s := gatewaytest.StartConfig(t, cfg, gateway.Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Load: func(inUse *config.Config) (*config.Config, []config.Kept, config.Diagnostics) {
			return load(inUse.TeamFiles)
		},
	})
	s.AwaitUpstreams()
	s.Modern("ann").WantList("one.x", "one.y", "two.z")
	s.Modern("bob").WantList("one.x", "one.y")

	// The team breaks its file, which must not keep what the platform and other teams change from taking effect.
	f.write("a.hcl", "team \"a\" {\n  members = [\n}\n")
	f.write("gateway.hcl", "gateway {}\nauth {\n"+gatewaytest.Token("ann")+"}\nhide \"not this\" { prompts = [\"one.y\"] }\n")
	f.write("b.hcl", gatewaytest.Team("b", members, `prompt "two.z" { name = "renamed" }`, b))
	f.write("d.hcl", "team \"d\" {\n")
	gatewaytest.Send(t, "POST", s.AdminURL+"/-/reload", "", nil)
	if out := s.Ready().Configuration.Out; !slices.Equal(out, []string{"d.hcl"}) { // it has no previous text
		t.Errorf("out: %q, want d.hcl", out)
	}
	if err := os.Remove(filepath.Join(f.dir, "d.hcl")); err != nil {
		t.Fatal(err)
	}
	answer := gatewaytest.Send(t, "POST", s.AdminURL+"/-/reload", "", nil)
	answer.Want(t, 200, `"last_good": [`, `"a.hcl"`, `"a": "kept"`, "a.hcl:")
	s.Modern("ann").WantList("one.x", "renamed")
	upstreamtest.Equal(t, 401, s.Modern("bob").CallUnchecked("prompts/list", "{}").Status, "status for a token that was taken away")
	gatewaytest.Send(t, "GET", s.AdminURL+"/readyz", "", nil).Want(t, 200, `"last_good": [`, `"a": "kept"`)
	gatewaytest.Send(t, "GET", s.AdminURL+"/", "", nil).Want(t, 200, "Of each of these files, the previous text is in use", "<bdi>a</bdi> kept",
		"<bdi>Team a runs on its previous file</bdi></h1>", "Team a runs on its previous file</h2>", "Everything else is in use.")
	if !strings.Contains(log.String(), "kept=a.hcl") {
		t.Errorf("the log does not say what is kept:\n%s", log.String())
	}

	// A right file that claims the prefix of the text in use holds up the reload.
	f.write("c.hcl", gatewaytest.Team("c", members, "", c))
	gatewaytest.Send(t, "POST", s.AdminURL+"/-/reload", "", nil).Want(t, 422, "c.hcl:", "in the previous text of")
	s.Modern("ann").WantList("one.x", "renamed")
	if err := os.Remove(filepath.Join(f.dir, "c.hcl")); err != nil {
		t.Fatal(err)
	}
	f.write("a.hcl", goodA)
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Modern("ann").WantList("one.x", "renamed")

	// The platform's mistake changes nothing.
	f.write("gateway.hcl", "gateway { colour = 1 }\n")
	gatewaytest.Send(t, "POST", s.AdminURL+"/-/reload", "", nil).Want(t, 422, "colour")
	s.Modern("ann").WantList("one.x", "renamed")
	s.Stop()
}
