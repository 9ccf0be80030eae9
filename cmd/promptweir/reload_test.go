package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestServe_ReloadsItsConfiguration(t *testing.T) {
	greeter := program(t, "greeter")
	team := func(more string) string {
		return fmt.Sprintf("team \"greeters\" {\n  upstream \"child\" { command = [%q] }\n  %s\n}\n", greeter, more)
	}
	folder := configure(t, map[string]string{"team.hcl": team("")})
	write := func(text string) {
		t.Helper()
		path := filepath.Join(folder, "team.hcl")
		if err := os.WriteFile(path+"~", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+"~", path); err != nil { // editors replace files by renaming
			t.Fatal(err)
		}
	}
	p := serve(t, folder)
	eventually(t, "all prompts listed", func() bool {
		return p.list(t, "").names() == "child.hello child.pid child.slow child.wip_bye"
	})
	child := p.get(t, "child.pid", "").text()

	write(team("hide \"wip\" { prompts = [\"*.wip_*\"] }"))
	eventually(t, "a prompt is hidden", func() bool { return p.list(t, "").names() == "child.hello child.pid child.slow" })
	write(team("nonsense {}"))
	eventually(t, "the log names the mistake", func() bool { return strings.Contains(p.logged(), "nonsense") })
	if names := p.list(t, "").names(); names != "child.hello child.pid child.slow" {
		t.Errorf("with a mistake in the team's file, whose last text stays, the list is %q", names)
	}
	write(team(""))
	eventually(t, "it is shown again", func() bool { return strings.Contains(p.list(t, "").names(), "child.wip_bye") })

	reloads := func() int { return strings.Count(p.logged(), `"configuration reloaded"`) }
	eventually(t, "all reloads are in the log", func() bool { return reloads() == 3 })
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "SIGHUP reloads", func() bool { return reloads() == 4 })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.admin+"/-/reload", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("POST /-/reload: status %d", response.StatusCode)
	}
	eventually(t, "POST /-/reload reloads", func() bool { return reloads() == 5 })
	if now := p.get(t, "child.pid", "").text(); now != child {
		t.Errorf("the child process was replaced: %s, want %s", now, child)
	}
	if code := p.stop(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
