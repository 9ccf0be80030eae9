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

// folder is a configuration of several files.
type folder struct {
	t    *testing.T
	path string
	log  gatewaytest.Log
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	f := &folder{t: t, path: t.TempDir()}
	f.write("gateway.hcl", "gateway {}\n")
	return f
}

func (f *folder) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.path, name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// start starts a gateway as the program does; nil if the configuration cannot be used.
func (f *folder) start() *gatewaytest.Server {
	f.t.Helper()
	logger := slog.New(slog.NewTextHandler(&f.log, nil))
	cfg, kept, diags := config.LoadTolerant(f.path, config.Options{}, nil)
	if cfg == nil {
		if diags.Err() == nil {
			f.t.Error("neither a configuration nor an error")
		}
		return nil
	}
	s := gatewaytest.StartConfig(f.t, cfg, gateway.Options{
		Logger: logger, Kept: kept, Diagnostics: diags,
		Load: func(inUse *config.Config) (*config.Config, []config.Kept, config.Diagnostics) {
			return config.LoadTolerant(f.path, config.Options{}, inUse.TeamFiles)
		},
	})
	s.AwaitUpstreams()
	return s
}

func TestStart_OneTeamsErrorDoesNotKeepOthersFromStarting(t *testing.T) {
	_, reader := gatewaytest.RecordTelemetry(t)
	a, b := gatewaytest.NewPeer(t, "one", "x"), gatewaytest.NewPeer(t, "two", "y")
	f := newFolder(t)
	f.write("a.hcl", "team \"a\" {\n  members = [\"user:ann\"\n}\n")
	f.write("b.hcl", gatewaytest.Team("b", "", "", b))
	s := f.start()
	if s == nil {
		t.Fatal("a mistake of one team keeps everybody from starting")
	}
	s.Modern("").WantList("two.y")
	c := s.Ready().Configuration
	if c.Refused == nil || !slices.Equal(c.Out, []string{"a.hcl"}) || c.Teams["a"] != "out" || !strings.Contains(strings.Join(c.Problems, "\n"), "a.hcl:") {
		t.Errorf("/readyz: %+v", c)
	}
	gatewaytest.Send(t, "GET", s.AdminURL+"/", "", nil).Want(t, 200, "Of each of these files, nothing is in use", "<bdi>a.hcl</bdi>")
	if n := f.log.Count("configuration in use, except for team files that have mistakes"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, f.log.String())
	}
	upstreamtest.Equal(t, 1, collect(t, reader, "promptweir.config.last_good")[""], "promptweir.config.last_good")

	if err := s.Reload(t.Context()); err != nil || !slices.Equal(s.Ready().Configuration.Out, []string{"a.hcl"}) {
		t.Errorf("a reload with the same mistake: %v, %+v", err, s.Ready().Configuration)
	}
	f.write("a.hcl", gatewaytest.Team("a", "", "", a))
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.AwaitUpstreams()
	s.Modern("").WantList("one.x", "two.y")
	if c := s.Ready().Configuration; c.Refused != nil || len(c.Out) > 0 {
		t.Errorf("after the correction: %+v", c)
	}
	upstreamtest.Equal(t, 0, collect(t, reader, "promptweir.config.last_good")[""], "promptweir.config.last_good")
	s.Stop()
}

func TestReload_ATeamsMistakeHoldsUpNobodyElse(t *testing.T) {
	a, b, c := gatewaytest.NewPeer(t, "one", "x", "y"), gatewaytest.NewPeer(t, "two", "z"), gatewaytest.NewPeer(t, "one", "other")
	f := newFolder(t)
	f.write("gateway.hcl", "gateway {}\nauth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n")
	members := `"user:ann"`
	goodA := gatewaytest.Team("a", members, gatewaytest.Expose("all", `"*"`, `"*"`), a)
	f.write("a.hcl", goodA)
	f.write("b.hcl", gatewaytest.Team("b", members, "", b))
	s := f.start()
	s.Modern("ann").WantList("one.x", "one.y", "two.z")
	s.Modern("bob").WantList("one.x", "one.y")

	// The team breaks its file, which must not keep what the platform and other teams change from taking effect.
	f.write("a.hcl", "team \"a\" {\n  members = [\n}\n")
	f.write("gateway.hcl", "gateway {}\nauth {\n"+gatewaytest.Token("ann")+"}\nhide \"not this\" { prompts = [\"one.y\"] }\n")
	f.write("b.hcl", gatewaytest.Team("b", members, `prompt "two.z" { name = "renamed" }`, b))
	answer := gatewaytest.Send(t, "POST", s.AdminURL+"/-/reload", "", nil)
	answer.Want(t, 200, `"last_good": [`, `"a.hcl"`, `"a": "kept"`, "a.hcl:")
	s.Modern("ann").WantList("one.x", "renamed")
	if r := s.Modern("bob").CallUnchecked("prompts/list", "{}"); r.Status != 401 {
		t.Errorf("a token that was taken away: %s", r.Dump())
	}
	gatewaytest.Send(t, "GET", s.AdminURL+"/readyz", "", nil).Want(t, 200, `"last_good": [`, `"a": "kept"`)
	gatewaytest.Send(t, "GET", s.AdminURL+"/", "", nil).Want(t, 200, "Of each of these files, the previous text is in use", "<bdi>a</bdi> kept",
		"<bdi>Team a runs on its previous file</bdi></h1>", "Team a runs on its previous file</h2>", "Everything else is in use.")
	if !strings.Contains(f.log.String(), "kept=a.hcl") {
		t.Errorf("the log does not say what is kept:\n%s", f.log.String())
	}

	// A right file that claims the prefix of the text in use holds up the reload.
	f.write("c.hcl", gatewaytest.Team("c", members, "", c))
	gatewaytest.Send(t, "POST", s.AdminURL+"/-/reload", "", nil).Want(t, 422, "c.hcl:", "In the previous text of")
	s.Modern("ann").WantList("one.x", "renamed")
	if err := os.Remove(filepath.Join(f.path, "c.hcl")); err != nil {
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
