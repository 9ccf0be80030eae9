package publish_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/snapshot/snapshottest"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// saveLists runs a publisher until it has saved its lists in a folder.
func saveLists(t *testing.T, folder, text string, servers snapshottest.Upstreams) *memory {
	t.Helper()
	m := newMemory(t, snapshottest.Load(t, text), folder, servers)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // Run saves once more when it ends
	if err := m.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestStateDir_KeepsTheListsOfUpstreamsThatAreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder, text := filepath.Join(t.TempDir(), "state"), team("a", "", "", "up")
		first := saveLists(t, folder, text, snapshottest.Upstreams{"up": server("one", `{"name":"two","x":12345678901234567890}`)})
		up := &snapshottest.Upstream{Starting: true}
		second := newMemory(t, snapshottest.Load(t, text), folder, snapshottest.Upstreams{"up": up})
		second.Start()
		up.Fail(upstream.Unreachable, errors.New("connection refused"))
		settle()
		second.wantList("up.one", "up.two")
		for i, want := range first.Current().Catalog.Entries() {
			if got := second.Current().Catalog.Entries()[i]; !bytes.Equal(got.JSON, want.JSON) {
				t.Errorf("after the restart the definition is %s\nwant %s", got.JSON, want.JSON)
			}
		}
		s := second.Current()
		degraded := s.Degradations(s.Policy.Audience(anyone()))
		if len(degraded) != 1 || degraded[0].Reason != upstream.Unreachable || !degraded[0].Stale {
			t.Errorf("degraded: %+v, want the upstream, with a stale list", degraded)
		}

		// Once the upstream is back, its own list counts, even an empty one.
		sub := second.Subscribe(anyone())
		defer sub.Close()
		up.List()
		settle()
		if names := second.list(anyone()); len(names) != 0 || !taken(sub) {
			t.Errorf("the upstream is back without prompts, but the list is %q", names)
		}
		third := newMemory(t, snapshottest.Load(t, text), folder, nil)
		if names := third.list(anyone()); len(names) != 0 {
			t.Errorf("the last good list was empty, but after another restart the list is %q", names)
		}
	})
}

func TestStateDir_IgnoresUnusableFiles(t *testing.T) {
	folder, text := t.TempDir(), team("a", "", "", "up")
	saveLists(t, folder, text, snapshottest.Upstreams{"up": server("one")})
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
		"another server": bytes.Replace(good, []byte("127.0.0.1:1/up"), []byte("127.0.0.1:1/of"), 1),
	} {
		t.Run(name, func(t *testing.T) {
			if bytes.Equal(content, good) {
				t.Fatal("the test does not damage the file")
			}
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			m := newMemory(t, snapshottest.Load(t, text), folder, nil)
			if names := m.list(anyone()); len(names) != 0 {
				t.Errorf("%q come from the damaged file", names)
			}
			upstreamtest.Equal(t, 1, m.log.Count("saved list ignored"), "lines about the damaged file")
		})
	}
}

func TestWhenDown_HidesAnUpstreamAfterItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := server("one")
		m := run(t, `team "a" {
  upstream "up" {
    url       = "http://127.0.0.1:1/up"
    when_down = "hide"
    grace     = "1m"
  }
  upstream "steady" { url = "http://127.0.0.1:1/steady" }
}`, snapshottest.Upstreams{"up": up, "steady": server("two")})
		sub := m.Subscribe(anyone())
		defer sub.Close()
		up.Fail(upstream.Unreachable, errors.New("connection refused"))
		time.Sleep(time.Minute - time.Second)
		synctest.Wait()
		if taken(sub) {
			t.Error("woken within the grace")
		}
		m.wantList("steady.two", "up.one")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		upstreamtest.Equal(t, true, taken(sub), "woken after the grace")
		m.wantList("steady.two")
		up.List(gatewaytest.Definitions("one")...)
		settle()
		upstreamtest.Equal(t, true, taken(sub), "woken with the upstream back")
		m.wantList("steady.two", "up.one")
	})
}

func TestStateDir_TriesAgainToSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, folder := server("one"), filepath.Join(t.TempDir(), "state")
		m := newMemory(t, snapshottest.Load(t, team("a", "", "", "up")), folder, snapshottest.Upstreams{"up": up})
		m.Start()
		settle()
		path := filepath.Join(folder, "up.json")
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
		up.List(gatewaytest.Definitions("one", "two")...)
		time.Sleep(time.Minute)
		synctest.Wait()
		upstreamtest.Equal(t, 1, m.log.Count("not saved in state_dir\" what=\"upstream up"), "lines about the failure, however often it is tried")
		if unsaved := strings.Join(m.Unsaved(), "\n"); !strings.Contains(unsaved, `upstream "up" is not saved in state_dir`) {
			t.Errorf("operators read %q", unsaved)
		}
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if content, err := os.ReadFile(path); err != nil || !bytes.Contains(content, []byte(`"two"`)) || len(m.Unsaved()) != 0 {
			t.Errorf("the file is %s (%v), want the new list; operators read %q", content, err, m.Unsaved())
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		upstreamtest.Equal(t, 0o600, info.Mode().Perm(), "the file's mode")
	})
}

func TestStateDir_RemovesItsOldTemporaryFiles(t *testing.T) {
	folder := t.TempDir()
	for name, age := range map[string]time.Duration{"up.123.tmp": time.Hour, "up.456.tmp": time.Second, "notes.tmp": time.Hour, "up.json": time.Hour} {
		path, then := filepath.Join(folder, name), time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	newMemory(t, snapshottest.Load(t, `team "a" {}`), folder, nil)
	entries, err := os.ReadDir(folder)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"notes.tmp", "up.456.tmp", "up.json"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("the folder has %q (%v), want %q", names, err, want)
	}
}
