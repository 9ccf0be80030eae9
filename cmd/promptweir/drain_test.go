package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/admin"
)

// runCommand runs a command to its end, and returns what it printed and its exit code.
func runCommand(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	command := exec.CommandContext(t.Context(), program(t, "promptweir"), args...)
	command.Env, command.Stdout, command.Stderr = append(os.Environ(), env...), &out, &errs
	if err := command.Run(); err != nil && command.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), command.ProcessState.ExitCode()
}

func TestDrain_TakesAnUpstreamOutAndLetsItBack(t *testing.T) {
	p := serve(t, configure(t, map[string]string{
		"team.hcl":  webTeam(serveOverHTTP(t, newGreeter())),
		"admin.hcl": "",
	}))
	eventually(t, "the upstream is listed", func() bool { return strings.Contains(p.list(t, "").names(), "web.hello") })
	want := func(code int, parts []string, args ...string) {
		t.Helper()
		stdout, stderr, got := runCommand(t, nil, append(args, "--admin", p.admin)...)
		if got != code {
			t.Errorf("%v: exit code %d, want %d", args, got, code)
		}
		for _, part := range parts {
			if !strings.Contains(stdout+stderr, part) {
				t.Errorf("%v prints %s%s, want %s in it", args, stdout, stderr, part)
			}
		}
	}
	want(0, []string{"web has been drained since 2", "; promptweir undrain web lets it serve again\n"}, "drain", "web")
	stdout, _, _ := runCommand(t, nil, "drain", "web", "-o", "json", "--admin", p.admin+"/")
	var now admin.Drain
	if err := json.Unmarshal([]byte(stdout), &now); err != nil || now.Upstream != "web" || now.Drained == nil || !*now.Drained || now.Since == nil {
		t.Errorf("%v: %s", err, stdout)
	}
	_, stderr, _ := runCommand(t, nil, "list", "--url", p.endpoint)
	if !regexp.MustCompile(`web is drained \(\d+ s\): gets from it are refused`).MatchString(stderr) {
		t.Errorf("list prints %s", stderr)
	}
	if _, stderr, code := runCommand(t, nil, "get", "web.hello", "who=x", "--url", p.endpoint); code != 1 || !strings.Contains(stderr, `"web" is out of service: an operator has drained it`) {
		t.Errorf("get exits with %d: %s", code, stderr)
	}
	want(1, []string{`promptweir: the configuration has no such upstream: "wbe". Did you mean "web"?`}, "drain", "wbe")
	want(2, nil, "drain")
	want(0, []string{"web is not drained\n"}, "undrain", "web")
	if _, stderr, code := runCommand(t, nil, "get", "web.hello", "who=x", "--url", p.endpoint); code != 0 {
		t.Errorf("get exits with %d: %s", code, stderr)
	}
}

func TestDrain_SaysWhatIsMissing(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer open" {
			http.Error(w, "forbidden: call with the admin token", http.StatusForbidden)
			return
		}
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body) // what the gateway answers, too, but for the time
	}))
	t.Cleanup(refusing.Close)
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	text := fmt.Sprintf("admin { listen = %q }\nteam \"t\" {\n upstream \"web\" { url = \"http://127.0.0.1:1\" }\n}\n", strings.TrimPrefix(refusing.URL, "http://"))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := runCommand(t, nil, "drain", "web", "--config", path)
	if code != 1 || !strings.Contains(stderr, "forbidden: call with the admin token; pass the token with --token, or in PROMPTWEIR_ADMIN_TOKEN") {
		t.Errorf("without the token: %d, %s", code, stderr)
	}
	for _, args := range [][]string{{"--token", "open"}, nil} {
		stdout, stderr, code := runCommand(t, []string{"PROMPTWEIR_ADMIN_TOKEN=open"}, append([]string{"undrain", "web", "--config", path}, args...)...)
		if code != 0 || stdout != "web is not drained\n" {
			t.Errorf("with the token: %d, %s%s", code, stdout, stderr)
		}
	}
	stdout, _, _ := runCommand(t, []string{"PROMPTWEIR_ADMIN_TOKEN=open"}, "drain", "--help")
	if strings.Contains(stdout, `"open"`) {
		t.Errorf("the help shows the token: %s", stdout)
	}
	refusing.Close()
	if _, stderr, code := runCommand(t, nil, "drain", "web", "--config", path); code != 1 || !strings.Contains(stderr, "promptweir: no gateway answers at "+refusing.URL+": connection refused; start the gateway, or name its admin listener with --admin") {
		t.Errorf("without a gateway: %d, %s", code, stderr)
	}
	if _, stderr, code := runCommand(t, nil, "drain", "web", "--admin", "localhost:8081"); code != 2 || !strings.Contains(stderr, "use an http or https URL") {
		t.Errorf("without a URL: %d, %s", code, stderr)
	}
	wantCompleted(t, []string{"web"}, "drain", "--config", path, "")
}
