package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

// consoleBound bounds the whole session of an operator.
const consoleBound = 5 * time.Minute

// dot is a PNG of one pixel.
const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// TestConsole_InABrowser runs console.mjs, an operator's session in Chromium with the console of a gateway that has four upstreams. The script
// checks what it sees.
func TestConsole_InABrowser(t *testing.T) {
	t.Parallel()
	library := gatewaytest.NewPeer(t, "library", manyPrompts(10_000)...)
	library.Answer("completion/complete", `{"completion":{"values":["calm","clear"]}}`)
	library.Answer("prompts/get", fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":"<script>pwned = true</script> said"}},
		{"role":"assistant","content":{"type":"image","mimeType":"image/png","data":%q}},
		{"role":"user","content":{"type":"audio","mimeType":"audio/wav","data":"UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA="}},
		{"role":"user","content":{"type":"resource","resource":{"uri":"file:///notes.txt","mimeType":"text/plain","text":%q}}}]}`, dot, strings.Repeat("W", 5000)))
	up, desk := gatewaytest.NewPeer(t, "up", "ask"), gatewaytest.NewPeer(t, "desk", "greet")
	const hostile = `<script>pwned = true</script><img src=x onerror='pwned = true'>`
	evil := gatewaytest.NewPeer(t, "evil",
		fmt.Sprintf(`{"name":"<b>evil","title":%q,"description":"\u202e\u2066%s%s","arguments":[{"name":%q,"description":%q}]}`, hostile, hostile, strings.Repeat("W", 10_000), hostile, hostile),
		fmt.Sprintf(`{"name":%q,"title":"too long"}`, strings.Repeat("n", 10_000)), fmt.Sprintf(`{"name":%q}`, strings.Repeat("m", 200)))

	path := filepath.Join(t.TempDir(), "audit.jsonl")
	log, err := audit.Open(&config.Audit{Path: path, Arguments: config.AuditNames}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	text := fmt.Sprintf("admin {\n token_sha256 = \"%x\"\n}\nauth {\n%s}\n", sha256.Sum256([]byte("open sesame")), gatewaytest.Token("ci", "ci")) +
		gatewaytest.Team("platform", `"group:platform"`, gatewaytest.Expose("reviews", `"library.review_*"`, `"*"`), library, up) +
		gatewaytest.Team("support", `"user:bob"`, "", desk) +
		gatewaytest.Team("strangers", `"user:eve"`, "", evil) +
		"team \"writers\" {\n members = [\"user:nobody\"]\n upstream \"notes\" { files = [\"prompts/*.md\"] }\n}\n"
	s := gatewaytest.ServeReloadable(t, text, gateway.Options{Audit: log, Version: "1.2.3"})

	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<title>another port</title>") // the browser of the test
	}))
	defer other.Close()
	note := filepath.Join(filepath.Dir(s.Path), "prompts", "draft.md")
	if err := os.Mkdir(filepath.Dir(note), 0o700); err != nil {
		t.Fatal(err)
	}
	s.MustReload(text) // so that files are beside the configuration that reloads read
	linked := gatewaytest.Serve(t, "")
	script := []string{"console.mjs", browser(t), strings.Replace(s.AdminURL, "127.0.0.1", "localhost", 1), strings.Replace(other.URL, "127.0.0.1", "localhost", 1), linked.AdminURL + "/sign-in?code=" + linked.LinkCode()}
	if testing.Short() {
		script = append(script, "short")
	}
	converse(t, script,
		map[string]func(){
			"nothing was got": func() {
				if n := len(library.Calls("prompts/get")); n > 0 {
					t.Errorf("%d gets before the first one", n)
				}
			},
			"line breaks arrived": func() {
				const want = `"arguments":{"tone":"calm\n\n  and clear\n"}`
				if calls := library.Calls("prompts/get"); len(calls) != 1 || !strings.Contains(string(calls[0].Params), want) {
					t.Errorf("%d gets, want one with %s: %s", len(calls), want, calls)
				}
			},
			"a prompt is written": func() {
				write(t, note, "---\narguments:\n  - name: code\n    required: true\n---\nLook at {{code}}.\n")
			},
			"it is edited": func() {
				write(t, note, "---\ntitle: A better title\narguments:\n  - name: code\n    required: true\n  - name: tone\n---\nRead {{code}} with care.\n")
			},
			"a mistake is made in it": func() { write(t, note, "---\ntitle: [Wrong]\n---\nRead it.\n") },
			"desk dies":               desk.Stop,
			"desk returns":            desk.Restart,
			"change desk":             func() { desk.SetPrompts("greet", "fresh"); desk.Announce() },
			"a mistake is made":       func() { write(t, s.Path, text+"team \"<b>broken\" {\n}\n") },
			"it is corrected":         func() { write(t, s.Path, text) },
			"the disk is full":        func() { lead(t, path, "/dev/full"); s.ReopenAudit() },
			"there is room":           func() { lead(t, path, path+".1"); s.ReopenAudit() },
		})
}

// lead puts a link in the place of a file.
func lead(t *testing.T, path, to string) {
	t.Helper()
	if err := errors.Join(os.Remove(path), os.Symlink(to, path)); err != nil {
		t.Fatal(err)
	}
}

// manyPrompts returns definitions of prompts whose names begin with one of a few words.
func manyPrompts(n int) []string {
	words := []string{"review", "incident", "summary", "translate", "refactor", "commit", "ledger", "invoice", "welcome", "postmortem"}
	all := make([]string, n)
	for i := range all {
		word := words[i%len(words)]
		all[i] = fmt.Sprintf(`{"name":"%s_%05d","title":"The %s number %d","description":"Write it for team %d, in a calm tone.","arguments":[{"name":"tone","description":"How it sounds","required":true}]}`,
			word, i, word, i, i%13)
	}
	return all
}

// converse runs a script that prints what is to happen next, and waits for a line once it has happened. The script fails on what it
// does not see.
func converse(t *testing.T, script []string, happen map[string]func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), consoleBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", script...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		step, isStep := strings.CutPrefix(lines.Text(), "NEXT ")
		if !isStep {
			t.Log(lines.Text())
			continue
		}
		if happen[step] == nil {
			t.Errorf("the script wants what cannot happen: %q", step)
		} else {
			happen[step]()
		}
		if _, err := io.WriteString(stdin, "done\n"); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
}
