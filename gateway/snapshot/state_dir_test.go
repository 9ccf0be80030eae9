package snapshot_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// serveWithStateDir runs a gateway that saves its lists in a folder.
func serveWithStateDir(t *testing.T, text, folder string) (s *gatewaytest.Server, log *bytes.Buffer) {
	t.Helper()
	log = &bytes.Buffer{}
	s = gatewaytest.StartWith(t, text, gateway.Options{StateDir: folder, Logger: slog.New(slog.NewTextHandler(log, nil))})
	s.AwaitUpstreams()
	return s, log
}

func TestStateDir_KeepsTheListsOfUpstreamsThatAreDown(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "state")
	p := gatewaytest.NewPeer(t, "up", "one", `{"name":"two","x":12345678901234567890}`)
	text := gatewaytest.Team("a", "", "", p)
	first, _ := serveWithStateDir(t, text, folder)
	want := first.Modern("").Call("prompts/list", "{}").Result(t, "prompts")
	first.Stop()

	p.Stop()
	second, _ := serveWithStateDir(t, text, folder)
	c := second.Modern("")
	list := c.Call("prompts/list", "{}")
	if got := list.Result(t, "prompts"); !bytes.Equal(got, want) {
		t.Errorf("after the restart the list is %s\nwant %s", got, want)
	}
	list.Want(t, 200, `"io.github.promptweir/partial":[{"upstream":"up","reason":"unreachable"`, `"stale":true`, `"ttlMs":5000`)
	c.Call("prompts/get", gatewaytest.GetParams("up.one")).Want(t, 200, `"code":-32603`, `"upstream":"up"`)

	// Once the upstream is back, its own list counts, even an empty one.
	changes := c.Listen("1")
	p.SetPrompts()
	p.Restart()
	changes.WantChange()
	if names := c.List(); len(names) != 0 {
		t.Errorf("the upstream is back without prompts, but the list is %q", names)
	}
	second.Stop()
	third, _ := serveWithStateDir(t, text, folder)
	if names := third.Modern("").List(); len(names) != 0 {
		t.Errorf("the last good list was empty, but after another restart the list is %q", names)
	}
}

func TestStateDir_IgnoresUnusableFiles(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", "one")
	text := gatewaytest.Team("a", "", "", p)
	folder := t.TempDir()
	first, _ := serveWithStateDir(t, text, folder)
	first.Stop()
	p.Stop()
	path := filepath.Join(folder, "up.json")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v (%v), want only up.json", entries, err)
	}
	for name, content := range map[string][]byte{
		"cut off":        good[:len(good)/2],
		"empty":          {},
		"no JSON":        []byte("hello"),
		"another format": bytes.Replace(good, []byte(`"format":1`), []byte(`"format":2`), 1),
		"a flipped byte": bytes.Replace(good, []byte(`"one"`), []byte(`"onf"`), 1),
		"another server": bytes.Replace(good, []byte(p.URL), []byte("http://127.0.0.1:1"), 1),
	} {
		t.Run(name, func(t *testing.T) {
			if bytes.Equal(content, good) {
				t.Fatal("the test does not damage the file")
			}
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			s, log := serveWithStateDir(t, text, folder)
			if entries := s.Entries(nil); len(entries) != 0 {
				t.Errorf("%d prompts come from the damaged file", len(entries))
			}
			s.Stop()
			if !strings.Contains(log.String(), "saved list ignored") {
				t.Errorf("the damaged file was not reported:\n%s", log)
			}
		})
	}
}

func TestWhenDown_HidesAnUpstreamAfterItsGrace(t *testing.T) {
	p, steady := gatewaytest.NewPeer(t, "up", "one"), gatewaytest.NewPeer(t, "steady", "two")
	p.Settings = `when_down = "hide"
    grace = "20ms"`
	s := gatewaytest.Serve(t, gatewaytest.Team("a", "", "", p, steady))
	c := s.Modern("")
	changes := c.Listen("1")
	p.Stop()
	c.Call("prompts/get", gatewaytest.GetParams("up.one")) // at the latest, this get shows that the upstream is down
	changes.WantChange()
	if names := c.List(); !slices.Equal(names, []string{"steady.two"}) {
		t.Errorf("after the grace the list is %q, want only steady.two", names)
	}
	c.Call("prompts/get", gatewaytest.GetParams("up.one")).Want(t, 200, "Unknown prompt: up.one")
	p.Restart()
	changes.WantChange()
	if names := c.List(); !slices.Equal(names, []string{"steady.two", "up.one"}) {
		t.Errorf("with the upstream back the list is %q, want both prompts", names)
	}
}

func TestStateDir_TriesAgainToSave(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", "one")
	folder := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	var log gatewaytest.Log
	s := gatewaytest.StartWith(t, gatewaytest.Team("a", "", "", p), gateway.Options{StateDir: folder, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	path := filepath.Join(folder, "up.json")
	upstreamtest.Eventually(t, "the list is saved", func() bool { return exists(path) })
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	p.AwaitStream().Offer("one", "two")
	upstreamtest.Eventually(t, "the failure is reported", func() bool {
		return log.Count("not saved in state_dir\" what=\"upstream up") == 1 && strings.Contains(strings.Join(s.Ready().Reports, "\n"), `upstream "up" is not saved in state_dir`)
	})
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	upstreamtest.Eventually(t, "the list is saved again", func() bool { return exists(path) && len(s.Ready().Reports) == 0 })
	if content, err := os.ReadFile(path); err != nil || !bytes.Contains(content, []byte(`"two"`)) {
		t.Errorf("the file is %s (%v), want the new list", content, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v (%v), want 0600", info.Mode(), err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestStateDir_ReadsRegularFilesOnly(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", "one")
	folder := t.TempDir()
	path := filepath.Join(folder, "up.json")
	if err := exec.CommandContext(t.Context(), "mkfifo", path).Run(); err != nil {
		t.Fatal(err)
	}
	s, log := serveWithStateDir(t, gatewaytest.Team("a", "", "", p), folder)
	upstreamtest.Eventually(t, "the list is saved in its place", func() bool {
		info, err := os.Stat(path)
		return err == nil && info.Mode().IsRegular()
	})
	s.Stop()
	if !strings.Contains(log.String(), "is not a regular file") {
		t.Errorf("the pipe was not reported:\n%s", log)
	}
}

func TestStateDir_RemovesItsOldTemporaryFiles(t *testing.T) {
	folder := t.TempDir()
	for name, age := range map[string]time.Duration{"up.123.tmp": time.Hour, "up.456.tmp": time.Second, "notes.tmp": time.Hour, "up.json": time.Hour} {
		path, then := filepath.Join(folder, name), time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := gateway.New(gatewaytest.Load(t, `team "a" {}`), gateway.Options{StateDir: folder}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(folder)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"notes.tmp", "up.456.tmp", "up.json"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("the folder has %q (%v), want %q", names, err, want)
	}
}
