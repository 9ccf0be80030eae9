package gateway_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway"
)

// keep runs a gateway that keeps its lists in a folder; log is what it logs.
func keep(t *testing.T, text, folder string) (s *server, log *bytes.Buffer) {
	t.Helper()
	log = &bytes.Buffer{}
	s = beginWith(t, text, gateway.Options{StateDir: folder, Logger: slog.New(slog.NewTextHandler(log, nil))})
	s.settle()
	return s, log
}

func TestARestartWhileAnUpstreamIsDownStillListsItsPrompts(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "state")
	p := newPeer(t, "up", "one", `{"name":"two","x":12345678901234567890}`)
	text := team("a", "", "", p)
	first, _ := keep(t, text, folder)
	want := first.modern("").call("prompts/list", "{}").result(t, "prompts")
	first.stop()

	p.stop()
	second, _ := keep(t, text, folder)
	c := second.modern("")
	list := c.call("prompts/list", "{}")
	if got := list.result(t, "prompts"); !bytes.Equal(got, want) {
		t.Errorf("after the restart the list is %s\nwant %s", got, want)
	}
	list.is(t, 200, `"promptweir/partial":[{"upstream":"up","reason":"unreachable"`, `"stale":true`, `"ttlMs":5000`)
	c.call("prompts/get", get("up.one")).is(t, 200, `"code":-32603`, `"upstream":"up"`)

	// What the upstream says when it is back counts, also where that is nothing.
	changes := c.open("1")
	p.set()
	p.restart()
	changes.changed()
	if names := c.list(); len(names) != 0 {
		t.Errorf("the upstream is back with no prompts, the list is %q", names)
	}
	second.stop()
	third, _ := keep(t, text, folder)
	if names := third.modern("").list(); len(names) != 0 {
		t.Errorf("the last good list was empty, after another restart it is %q", names)
	}
}

func TestAKeptListThatCannotBeUsedIsReportedAndIgnored(t *testing.T) {
	p := newPeer(t, "up", "one")
	text := team("a", "", "", p)
	folder := t.TempDir()
	first, _ := keep(t, text, folder)
	first.stop()
	p.stop()
	path := filepath.Join(folder, "up.json")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("in the folder are %v (%v), want only up.json", entries, err)
	}
	for name, content := range map[string][]byte{
		"cut off":        good[:len(good)/2],
		"empty":          {},
		"no JSON":        []byte("hello"),
		"another format": bytes.Replace(good, []byte(`"format":1`), []byte(`"format":2`), 1),
		"a flipped byte": bytes.Replace(good, []byte(`"one"`), []byte(`"onf"`), 1),
		"another server": bytes.Replace(good, []byte(p.url), []byte("http://127.0.0.1:1"), 1),
	} {
		t.Run(name, func(t *testing.T) {
			if bytes.Equal(content, good) {
				t.Fatal("the file is not damaged")
			}
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			s, log := keep(t, text, folder)
			if entries := s.Entries(nil); len(entries) != 0 {
				t.Errorf("%d prompts were taken from it", len(entries))
			}
			s.stop()
			if !strings.Contains(log.String(), "saved list ignored") {
				t.Errorf("it was not reported:\n%s", log)
			}
		})
	}
}

func TestAnUpstreamThatIsDownIsHiddenAfterItsGrace(t *testing.T) {
	p, steady := newPeer(t, "up", "one"), newPeer(t, "steady", "two")
	p.settings = `when_down = "hide"
    grace = "20ms"`
	s := serve(t, team("a", "", "", p, steady))
	c := s.modern("")
	changes := c.open("1")
	p.stop()
	c.call("prompts/get", get("up.one")) // it is noticed at the latest when it is asked
	changes.changed()
	if names := c.list(); !slices.Equal(names, []string{"steady.two"}) {
		t.Errorf("after the grace the list is %q", names)
	}
	c.call("prompts/get", get("up.one")).is(t, 200, "Unknown prompt: up.one")
	p.restart()
	changes.changed()
	if names := c.list(); !slices.Equal(names, []string{"steady.two", "up.one"}) {
		t.Errorf("with the upstream back the list is %q", names)
	}
}
