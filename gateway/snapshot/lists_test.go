package snapshot_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

func TestReadLists_ReportsUnusableLists(t *testing.T) {
	cfg := gatewaytest.Load(t, "team \"eng\" {\n upstream \"one\" { command = [\"no-such-command\"] }\n}\n")
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for text, want := range map[string]string{
		"":                             "listed.json",
		`[]`:                           "listed.json",
		`{"prompts":{}}`:               "no array of prompts",
		`{"prompts":[{}]}`:             "prompt 0 has no name",
		`{"prompts":[1]}`:              "prompt 0 has no name",
		`{"prompts":[{"name":"x.y"}]}`: `no upstream has a prefix that matches "x.y"`,
	} {
		_, problems, err := snapshot.ReadLists(cfg, write("listed.json", text))
		if got := fmt.Sprint(problems, err); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q", text, got, want)
		}
	}
	write("one.json", `{"format":1,"upstream":"eng/one another-command","definitions":[]}`)
	lists, problems, err := snapshot.ReadLists(cfg, folder)
	if err != nil || len(lists) > 0 || !strings.Contains(fmt.Sprint(problems), "another server") {
		t.Errorf("lists %v, problems %v, error %v", lists, problems, err)
	}
}
