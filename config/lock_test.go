package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func locked(t *testing.T, name, upstream, definition string) LockedPrompt {
	t.Helper()
	p, err := NewLockedPrompt(name, upstream, []byte(definition))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestReadLock_ReadsWhatFormatWrites(t *testing.T) {
	lock := NewLock([]LockedPrompt{
		locked(t, "b.x", "b", `{"title":"B","big":12345678901234567890}`),
		locked(t, "a.x", "two", `{}`),
		locked(t, "a.x", "one", `{"description":"${template} %{if} \"quoted\" \\ back\nline","arguments":[{"name":"a"}]}`),
		locked(t, `a."quoted" ${x} %{y}`, "one", `{"description":"unseen: \u202e\udb40\udc41 and \u0007"}`),
		locked(t, "a.u\u0308ber \u200b \U000e0041", "one", "{\"description\":\"de\u0301composed\"}"),
		locked(t, "a.über", "one", `{"description":"größer 漢字"}`),
	})
	file := lock.Format()
	got, report := parseLock("promptweir.lock.hcl", file)
	if len(report.Diagnostics) > 0 {
		t.Fatalf("%v\n%s", report.Diagnostics, file)
	}
	if diff := cmp.Diff(lock, got); diff != "" {
		t.Errorf("parseLock(Format()) (-want +got):\n%s\n%s", diff, file)
	}
	for _, hidden := range []string{"\u202e", "\u200b", "\U000e0041"} {
		if bytes.Contains(file, []byte(hidden)) {
			t.Errorf("%+q is invisible in the file", hidden)
		}
	}
	for _, visible := range []string{"größer 漢字", "a.über"} {
		if !bytes.Contains(file, []byte(visible)) {
			t.Errorf("%s is not legible in\n%s", visible, file)
		}
	}
	if again := got.Format(); !bytes.Equal(again, file) {
		t.Errorf("formatted again:\n%s", again)
	}
}

func TestNewLockedPrompt_IgnoresSpelling(t *testing.T) {
	a, b := locked(t, "x", "u", `{"a":1.0,"b":"é"}`), locked(t, "x", "u", ` { "b":"\u00e9", "a":1 }`)
	if a != b {
		t.Errorf("%+v and %+v differ", a, b)
	}
	if c := locked(t, "x", "u", `{"a":2,"b":"é"}`); c.SHA256 == a.SHA256 {
		t.Error("two definitions have one hash")
	}
}

func TestDiffLocks_ReturnsAllDifferences(t *testing.T) {
	gone, same := locked(t, "b", "u", `{}`), locked(t, "c", "u", `{}`)
	old, changed := locked(t, "d", "u", `{}`), locked(t, "d", "u", `{"title":"T"}`)
	fresh, moved, last := locked(t, "a", "u", `{}`), locked(t, "c", "v", `{}`), locked(t, "e", "u", `{}`)
	got := DiffLocks(NewLock([]LockedPrompt{gone, same, old}), NewLock([]LockedPrompt{fresh, moved, changed, last}))
	want := []LockChange{{After: &fresh}, {Before: &gone}, {Before: &old, After: &changed}, {After: &last}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("DiffLocks (-want +got):\n%s", diff)
	}
	if same := DiffLocks(NewLock([]LockedPrompt{old}), NewLock([]LockedPrompt{old})); same != nil {
		t.Errorf("a lock differs from itself in %v", same)
	}
}

// A file of an earlier version has a definition for each upstream of a name.
func TestState_ApprovesEachDefinitionOfTheName(t *testing.T) {
	one, two, other := locked(t, "p.x", "a", `{"title":"1"}`), locked(t, "p.x", "b", `{"title":"2"}`), locked(t, "p.y", "a", `{}`)
	lock := NewLock([]LockedPrompt{other, two, one, locked(t, "p.x", "c", `{"title":"1"}`)})
	if len(lock) != 3 {
		t.Errorf("the lock is %v, want equal definitions once", lock)
	}
	for _, test := range []struct {
		name string
		of   LockedPrompt
		want LockState
	}{
		{"p.x", one, LockApproved}, {"p.x", two, LockApproved}, {"p.x", other, LockDiffers}, {"p.y", other, LockApproved}, {"p.z", one, LockMissing},
	} {
		if got := lock.State(test.name, test.of.SHA256); got != test.want || (len(lock.Named(test.name)) == 0) != (got == LockMissing) {
			t.Errorf("%s with %s is %q, want %q", test.name, test.of.Definition, got, test.want)
		}
	}
}

func TestLoad_ReadsTheLockFileBesideTheConfiguration(t *testing.T) {
	want := locked(t, "a.x", "a", `{"title":"T"}`)
	lock := NewLock([]LockedPrompt{want})
	dir := write(t, "gateway.hcl", "team \"a\" { lock = \"enforce\" }\nteam \"b\" {}\n", LockFile, string(lock.Format()))
	want.Definition = ""
	for _, path := range []string{dir, filepath.Join(dir, "gateway.hcl")} {
		cfg := load(t, path)
		if diff := cmp.Diff(Lock{want}, cfg.Lock); diff != "" {
			t.Errorf("Load(%s).Lock (-want +got):\n%s", path, diff)
		}
	}
	if err := os.Remove(filepath.Join(dir, LockFile)); err != nil {
		t.Fatal(err)
	}
	cfg, diags := Load(dir, options())
	if cfg == nil || len(diags.report.Diagnostics) != 1 || cfg.Lock != nil {
		t.Errorf("without a lock file: %v, %d diagnostics, want one warning", cfg, len(diags.report.Diagnostics))
	}
	broken := write(t, "gateway.hcl", `gateway { lock = "warn" }`+"\n", LockFile, "<<<<<<< HEAD\n")
	if cfg, diags := Load(broken, options()); cfg != nil || !strings.Contains(diags.Err().Error(), LockFile+":1") {
		t.Errorf("a broken lock file: %v, %v", cfg, diags.Err())
	}
	if cfg, diags := Load(broken, Options{SkipLockFile: true}); cfg == nil {
		t.Errorf("a broken lock file cannot be skipped: %v", diags.Err())
	}
	unasked := write(t, "gateway.hcl", "gateway {}\n", LockFile, "<<<<<<< HEAD\n")
	if cfg, diags := Load(unasked, options()); cfg == nil {
		t.Errorf("a lock file is read without a lock attribute: %v", diags.Err())
	}
}

func TestLockFor_IsTheStricterSetting(t *testing.T) {
	for _, test := range []struct{ gateway, team, want LockMode }{
		{LockOff, LockOff, LockOff},
		{LockOff, LockWarn, LockWarn},
		{LockWarn, LockOff, LockWarn},
		{LockWarn, LockEnforce, LockEnforce},
		{LockEnforce, LockWarn, LockEnforce},
		{LockEnforce, LockOff, LockEnforce},
	} {
		cfg := &Config{Gateway: Gateway{Lock: LockSetting{Mode: test.gateway}}, Teams: []Team{
			{Name: "other", Lock: LockSetting{Mode: LockEnforce}}, {Name: "a", Lock: LockSetting{Mode: test.team}},
		}}
		if got := cfg.LockFor("a").Mode; got != test.want {
			t.Errorf("gateway %q, team %q: %q, want %q", test.gateway, test.team, got, test.want)
		}
	}
}

func FuzzLockFile(f *testing.F) {
	f.Add("a.x", `{"title":"T"}`)
	f.Add("$${ %%{ $$${ \n\r", `{"a":"$${ $$${"}`)
	f.Add("a.\u202e\"", `{"description":"${x}\n  JSON\n"}`)
	f.Add("a.\uffff\U000e0001", "{\"title\":\"\uffff\U000e0001\"}")
	f.Fuzz(func(t *testing.T, name, definition string) {
		p, err := NewLockedPrompt(strings.ToValidUTF8(name, "?"), "u", []byte(definition))
		if err != nil || strings.Count(definition, "[")+strings.Count(definition, "{") > 100 {
			t.Skip() // what is read off the wire nests less than this
		}
		file := Lock{p}.Format()
		got, report := parseLock("x.lock.hcl", file)
		if len(report.Diagnostics) > 0 || len(got) != 1 || got[0] != p {
			t.Errorf("%+v is written as\n%s\nand read as %+v: %v", p, file, got, report.Diagnostics)
		}
	})
}

func TestReadLock_FollowsLinksBeneathTheFolderOnly(t *testing.T) {
	const gateway = "gateway { lock = \"enforce\" }\n"
	for target, mayRead := range map[string]bool{
		"..data/promptweir.lock.hcl": true, // as Kubernetes mounts it
		"teams/../other.lock.hcl":    true,
		"../secret.lock.hcl":         false,
		"../secret":                  false,
		"secrets/token":              false,
	} {
		dir := write(t, "conf/gateway.hcl", gateway, "secret", "hunter2 {}\n", "secret.lock.hcl", "hunter2 {}\n", "conf/secrets/token", "hunter2 {}\n",
			"conf/..data/promptweir.lock.hcl", "", "conf/other.lock.hcl", "", "conf/teams/x", "")
		folder := filepath.Join(dir, "conf")
		link(t, target, filepath.Join(folder, LockFile))
		for _, path := range []string{folder, filepath.Join(folder, "gateway.hcl")} {
			_, diags := Load(path, options())
			text := printed(t, diags)
			if diags.HasErrors() == mayRead || strings.Contains(text, "hunter2") || !mayRead && !strings.Contains(text, "and is not read") {
				t.Errorf("%s -> %s: %s", path, target, text)
			}
		}
		if _, _, err := ReadLock(filepath.Join(folder, LockFile)); (err == nil) != mayRead {
			t.Errorf("ReadLock of a link to %s: %v", target, err)
		}
	}
}
