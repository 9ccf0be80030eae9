package gateway_test

import (
	"errors"
	"io/fs"
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

// folder is a configuration of several files, with a state_dir.
type folder struct {
	t        *testing.T
	path     string
	stateDir string
	log      gatewaytest.Log
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	f := &folder{t: t, path: t.TempDir(), stateDir: filepath.Join(t.TempDir(), "state")}
	f.write("gateway.hcl", "gateway {\n  state_dir = \""+f.stateDir+"\"\n}\n")
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
	cfg, kept, diags := gateway.LoadLastGood(f.path, config.Options{}, logger)
	if cfg == nil {
		if diags.Err() == nil {
			f.t.Error("neither a configuration nor an error")
		}
		return nil
	}
	s := gatewaytest.StartConfig(f.t, cfg, gateway.Options{
		Logger: logger, StateDir: cfg.Gateway.StateDir, Kept: kept, Diagnostics: diags,
		Load: func(inUse *config.Config) (*config.Config, []config.Kept, config.Diagnostics) {
			return config.LoadLastGood(f.path, config.Options{}, inUse.LastGood)
		},
	})
	s.AwaitUpstreams()
	return s
}

func TestLastGood_OneTeamsMistakeDoesNotKeepOthersFromStarting(t *testing.T) {
	_, reader := gatewaytest.RecordTelemetry(t)
	a, b := gatewaytest.NewPeer(t, "one", "x"), gatewaytest.NewPeer(t, "two", "y")
	a.Settings = `headers = { X-Key = env("LAST_GOOD_KEY") }`
	t.Setenv("LAST_GOOD_KEY", "hunter2-key")
	f := newFolder(t)
	goodA, goodB := gatewaytest.Team("a", "", "", a), gatewaytest.Team("b", "", "", b)
	f.write("a.hcl", goodA)
	f.write("b.hcl", goodB)
	first := f.start()
	if first == nil {
		t.Fatal("a good configuration is refused")
	}
	upstreamtest.Eventually(t, "the team files are kept", func() bool { return f.kept() != "" })
	first.Stop()
	if kept := f.kept(); !strings.Contains(kept, "LAST_GOOD_KEY") || strings.Contains(kept, "hunter2") {
		t.Errorf("want the text as the team wrote it, not %s", kept)
	}

	f.write("a.hcl", "team \"a\" {\n  members = [\"user:ann\"\n}\n")
	f.write("b.hcl", gatewaytest.Team("b", "", `prompt "two.y" { name = "renamed" }`, b))
	s := f.start()
	if s == nil {
		t.Fatal("a mistake of one team keeps everybody from starting")
	}
	s.Modern("").WantList("one.x", "renamed")
	c := s.Ready().Configuration
	if c.Refused == nil || !slices.Equal(c.LastGood, []string{"a.hcl"}) || !strings.Contains(strings.Join(c.Problems, "\n"), "a.hcl:") {
		t.Errorf("/readyz: %+v", c)
	}
	page := gatewaytest.Send(t, "GET", s.AdminURL+"/", "", nil)
	page.Want(t, 200, "Of each of these files, the last good text is in use", "<bdi>a.hcl</bdi>")
	if n := f.log.Count("configuration in use, except for team files that have mistakes"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, f.log.String())
	}
	upstreamtest.Equal(t, 1, collect(t, reader, "promptweir.config.last_good")[""], "promptweir.config.last_good")

	if err := s.Reload(t.Context()); err != nil || !slices.Equal(s.Ready().Configuration.LastGood, []string{"a.hcl"}) {
		t.Errorf("a reload with the same mistake: %v, %+v", err, s.Ready().Configuration)
	}
	f.write("a.hcl", goodA)
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := s.Ready().Configuration; c.Refused != nil || len(c.LastGood) > 0 {
		t.Errorf("after the correction: %+v", c)
	}
	upstreamtest.Equal(t, 0, collect(t, reader, "promptweir.config.last_good")[""], "promptweir.config.last_good")
	s.Stop()
}

func TestLastGood_KeepsTeamsWithoutUpstreams(t *testing.T) {
	f := newFolder(t)
	f.write("a.hcl", "team \"a\" {}\n")
	s := f.start()
	upstreamtest.Eventually(t, "the team files are kept", func() bool { return strings.Contains(f.kept(), "a.hcl") })
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
	gatewaytest.Send(t, "GET", s.AdminURL+"/", "", nil).Want(t, 200, "Of each of these files, the last good text is in use", "<bdi>a</bdi> kept")
	if !strings.Contains(f.log.String(), "kept=a.hcl") {
		t.Errorf("the log does not say what is kept:\n%s", f.log.String())
	}

	// Nor does a new file that cannot be read.
	more := filepath.Join(f.path, "more")
	if err := errors.Join(os.Mkdir(more, 0o700), os.Symlink("nowhere", filepath.Join(more, "x.hcl"))); err != nil {
		t.Fatal(err)
	}
	f.write("b.hcl", gatewaytest.Team("b", members, `prompt "two.z" { name = "again" }`, b))
	answer = gatewaytest.Send(t, "POST", s.AdminURL+"/-/reload", "", nil)
	answer.Want(t, 200, `"more/x.hcl"`, `"a": "kept"`)
	s.Modern("ann").WantList("again", "one.x")
	f.write("b.hcl", gatewaytest.Team("b", members, `prompt "two.z" { name = "renamed" }`, b))

	// A right file takes the prefix of the kept text, which leaves.
	f.write("c.hcl", gatewaytest.Team("c", members, "", c))
	answer = gatewaytest.Send(t, "POST", s.AdminURL+"/-/reload", "", nil)
	answer.Want(t, 200, `"out": [`, `"a": "out"`)
	s.AwaitUpstreams()
	s.Modern("ann").WantList("one.other", "renamed")
	gatewaytest.Send(t, "GET", s.AdminURL+"/", "", nil).Want(t, 200, "Of each of these files, nothing is in use", "<bdi>a</bdi> out")

	// What is out is not in use, so it does not come back when the other leaves: only a right file does.
	if err := os.Remove(filepath.Join(f.path, "c.hcl")); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Modern("ann").WantList("renamed")
	f.write("a.hcl", goodA)
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.AwaitUpstreams()
	s.Modern("ann").WantList("one.x", "renamed")

	// The platform's mistake changes nothing.
	f.write("gateway.hcl", "gateway { colour = 1 }\n")
	gatewaytest.Send(t, "POST", s.AdminURL+"/-/reload", "", nil).Want(t, 422, "colour")
	s.Modern("ann").WantList("one.x", "renamed")
	s.Stop()
}

// kept returns what the state_dir has of team files; it must be readable by nobody else.
func (f *folder) kept() string {
	f.t.Helper()
	paths, _ := filepath.Glob(filepath.Join(f.stateDir, "*.lastgood"))
	if len(paths) == 0 {
		return ""
	}
	info, err := os.Stat(paths[0])
	content, readErr := os.ReadFile(paths[0])
	if errors.Join(err, readErr) != nil || len(paths) > 1 {
		f.t.Fatalf("%q: %v, %v", paths, err, readErr)
	}
	if info.Mode() != fs.FileMode(0o600) {
		f.t.Errorf("%s has mode %v", paths[0], info.Mode())
	}
	return string(content)
}

func TestLastGood_IsOfNoUseWithoutStateDirOrWhenDamaged(t *testing.T) {
	a := gatewaytest.NewPeer(t, "one", "x")
	f := newFolder(t)
	f.write("a.hcl", gatewaytest.Team("a", "", "", a))
	f.start().Stop()
	f.write("a.hcl", `team "a" {`)
	paths, _ := filepath.Glob(filepath.Join(f.stateDir, "*.lastgood"))
	if len(paths) != 1 {
		t.Fatalf("kept: %q", paths)
	}
	content, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(paths[0], []byte(strings.Replace(string(content), "one", "two", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if f.start() != nil || f.log.Count("saved team files ignored") != 1 {
		t.Errorf("a damaged file was used, or not reported:\n%s", f.log.String())
	}
	if err := os.WriteFile(paths[0], content, 0o600); err != nil {
		t.Fatal(err)
	}
	f.start().Stop()
	f.write("gateway.hcl", "gateway {}\n")
	if f.start() != nil {
		t.Error("without a state_dir, the mistake was passed over")
	}
}
