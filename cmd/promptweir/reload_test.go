package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
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
	upstreamtest.Equal(t, "child.hello child.pid child.slow", p.list(t, "").names(), "the list with a mistake in the team's file, as it was")
	write(team(""))
	eventually(t, "it is shown again", func() bool { return strings.Contains(p.list(t, "").names(), "child.wip_bye") })

	reloads := func() int { return strings.Count(p.logged(), `"configuration reloaded"`) }
	eventually(t, "all reloads are in the log", func() bool { return reloads() == 3 })
	p.signal(t, syscall.SIGHUP)
	eventually(t, "SIGHUP reloads", func() bool { return reloads() == 4 })
	command := func(code int, want string) {
		t.Helper()
		if stdout, stderr, got := runHere(t, "reload", "--admin", p.admin); got != code || !strings.Contains(stdout+stderr, want) {
			t.Errorf("reload exits with %d and prints %s%s, want %d and %s", got, stdout, stderr, code, want)
		}
	}
	command(exitDone, "the configuration is in use\n")
	eventually(t, "reload reloads", func() bool { return reloads() == 5 })
	writeFile(t, folder, "team.hcl", "team \"greeters\" {\n  hide {\n")
	command(exitFailed, "the configuration is in use, except for team.hcl\npromptweir: ")
	writeFile(t, folder, "platform.hcl", "gateway { nonsense = 1 }")
	command(exitFailed, "the gateway refuses the configuration, and keeps the previous one\npromptweir: ")
	if stdout, _, code := runHere(t, "reload", "--admin", p.admin, "-o", "json"); code != exitFailed || !strings.Contains(stdout, `"refused": "2`) {
		t.Errorf("reload -o json exits with %d and prints %s", code, stdout)
	}
	upstreamtest.Equal(t, child, p.get(t, "child.pid", "").text(), "the child process after the reload")
	upstreamtest.Equal(t, 0, p.stop(t), "exit code")
}

func TestReload_SaysWhatIsMissing(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer open" {
			http.Error(w, "forbidden: call with the admin token", http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, `{"loaded":"2026-01-01T00:00:00Z"}`)
	}))
	t.Cleanup(refusing.Close)
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	writeFile(t, filepath.Dir(path), "gateway.hcl", fmt.Sprintf("admin { listen = %q }\n", strings.TrimPrefix(refusing.URL, "http://")))
	want := func(code int, want string, args ...string) {
		t.Helper()
		if _, stderr, got := runHere(t, append([]string{"reload"}, args...)...); got != code || !strings.Contains(stderr, want) {
			t.Errorf("reload %q exits with %d and says %s, want %d and %s", args, got, stderr, code, want)
		}
	}
	want(exitFailed, "forbidden: call with the admin token; pass the token with --token, or in PROMPTWEIR_ADMIN_TOKEN", "--config", path)
	want(exitDone, "", "--config", path, "--token", "open")
	t.Setenv("PROMPTWEIR_ADMIN_TOKEN", "open")
	want(exitDone, "", "--config", path)
	if stdout, _, _ := runHere(t, "reload", "--help"); strings.Contains(stdout, `"open"`) {
		t.Errorf("the help shows the token: %s", stdout)
	}
	refusing.Close()
	want(exitFailed, "promptweir: no gateway answers at "+refusing.URL+": connection refused; start the gateway, or name its configuration with --config or its admin listener with --admin", "--config", path)
	want(exitUsage, "use an http or https URL", "--admin", "localhost:8081")
}

// Each command that checks, starts or reloads a configuration reports the fallback for each team's file with
// errors.
func TestMistakes_OfATeamAreSaidWithWhatItKeeps(t *testing.T) {
	folder := configure(t, map[string]string{
		"a.hcl": "team \"a\" {\n  upstream \"notes\" { files = [\"*.md\"] }\n}\n", "note.md": "A note.",
		// A grant for a team without a file is no error, either.
		"allow.hcl": "allow \"a\" { files = [\"*.md\"] }\nallow \"b\" {}\nallow \"none\" {}\n",
	})
	p := serve(t, folder)
	writeFile(t, folder, "a.hcl", `team "a" { colour = 1 }`)
	writeFile(t, folder, "b.hcl", `team "b" { colour = 1 }`)
	for _, flags := range [][]string{nil, {"--live"}, {"-o", "github"}, {"--live", "-o", "github"}, {"-o", "json"}, {"--live", "-o", "json"}} {
		stdout, stderr, code := runHere(t, append([]string{"validate", "--config", folder}, flags...)...)
		said := strings.ReplaceAll(strings.Join(strings.Fields(stdout+stderr), " "), `\"`, `"`) // JSON escapes quotes
		for _, file := range []string{`"a.hcl" (a)`, `"b.hcl" (b)`} {
			want := file + " has mistakes: a running gateway keeps using its previous version, one that starts leaves it out; all other changes take effect."
			if code != exitFailed || !strings.Contains(said, want) {
				t.Errorf("validate %q: exit code %d, and says %s", flags, code, said)
			}
		}
	}
	_, reloaded := reload(t, p)
	_, readiness := p.page(t, "/readyz")
	for _, want := range []string{`"a": "kept"`, `"b": "out"`} {
		if !strings.Contains(readiness, want) || !strings.Contains(reloaded, want) {
			t.Errorf("/readyz or the response to a reload lacks %s: %s %s", want, readiness, reloaded)
		}
	}
	p.stop(t)
	p = serve(t, folder)
	if !strings.Contains(p.logged(), `"out":"a.hcl, b.hcl"`) {
		t.Errorf("the log of the start does not say it:\n%s", p.logged())
	}
}
