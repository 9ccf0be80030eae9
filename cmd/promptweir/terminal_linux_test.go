package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal/terminaltest"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// A person who starts a gateway at a terminal sees what it does, in colours.
func TestTerminal_LogOfAGatewayIsForAPerson(t *testing.T) {
	address := muteServer(t)
	folder := configure(t, map[string]string{"team.hcl": fmt.Sprintf(`team "docs" {
  upstream "greeter" { command = [%q] }
  upstream "wiki" { command = ["wiki-mcp-servr"] }
  upstream "slow" {
    url     = "http://%s/mcp"
    timeout = "3s"
  }
}`, program(t, "greeter"), address)})
	k := terminaltest.Open(t)
	command := exec.CommandContext(t.Context(), program(t, "promptweir"), "serve", "--config", folder)
	command.Stderr = k.Device
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	for _, message := range []string{"listening", "upstream connected", "wiki-mcp-servr", "did not answer"} {
		eventually(t, "the terminal shows "+message, func() bool { return k.Shows(message) })
	}
	next := regexp.MustCompile(`(?m)^\n  look    (http://127\.0\.0\.1:\d+/sign-in)\?(code=\w+)  \(signs in once, within 10 minutes; promptweir console prints a new link\)\n` +
		`  use     \S+ client claude --url http://127\.0\.0\.1:\d+/mcp\n  change  edit a file of .*\n\n`)
	said := next.FindStringSubmatch(k.Text())
	if said == nil {
		t.Fatalf("the terminal does not say what next:\n%s", k.Text())
	}
	signIn := func(want int) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, said[1], strings.NewReader(said[2]))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		upstreamtest.Equal(t, want, response.StatusCode, "status of the link")
	}
	signIn(http.StatusSeeOther)
	signIn(http.StatusForbidden)
	link, problem, _ := runHere(t, "console", "--admin", strings.TrimSuffix(said[1], "/sign-in"))
	if address, code, ok := strings.Cut(strings.TrimSpace(link), "?"); ok && address == said[1] {
		said[2] = code
	}
	if signIn(http.StatusSeeOther); t.Failed() {
		t.Errorf("promptweir console prints %s%s", link, problem)
	}
	if err := command.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Error(err)
	}
	eventually(t, "the terminal shows the end", func() bool { return k.Shows(" stopped") })
	const (
		begin = `\x1b\[2m\d\d:\d\d:\d\d\x1b\[0m \x1b\[(?:92mINF|93mWRN)\x1b\[0m `
		key   = `\x1b\[2m%s=\x1b\[0m`
	)
	lines := strings.Split(strings.TrimSuffix(next.ReplaceAllString(k.Text(), ""), "\n"), "\n")
	for _, line := range lines {
		if !regexp.MustCompile(`^` + begin).MatchString(line) {
			t.Errorf("the terminal shows %q", line)
		}
	}
	for i, pattern := range map[int]string{
		0: `starting \x1b\[2mversion=\x1b\[0m\S+ \x1b\[2mconfig=\x1b\[0m\S+ \x1b\[2mteams=\x1b\[0m1 \x1b\[2mupstreams=\x1b\[0m3$`,
		1: `listening \x1b\[2mendpoint=\x1b\[0mhttp://127.0.0.1:\d+/mcp \x1b\[2madmin=\x1b\[0mhttp://127.0.0.1:\d+$`,
	} {
		if !regexp.MustCompile(begin + pattern).MatchString(lines[i]) {
			t.Errorf("line %d is %q, want %s", i+1, lines[i], pattern)
		}
	}
	for _, pattern := range []string{
		`upstream connected \x1b\[2mupstream=\x1b\[0mgreeter .*prompts=\x1b\[0m4 `,
		`upstream down .*wiki.*` + fmt.Sprintf(key, "place") + `\S*/team.hcl:3 .*"cannot start wiki-mcp-servr: not found in PATH" ` + fmt.Sprintf(key, "remedy") + `"use the full path, or install it" `,
		`upstream down .*slow.*` + fmt.Sprintf(key, "place") + `\S*/team.hcl:4 .*"127.0.0.1:\d+ took the request, but did not answer server/discover within 3s" `,
	} {
		if !regexp.MustCompile(`(?m)^` + begin + pattern).MatchString(k.Text()) {
			t.Errorf("the terminal does not show %s:\n%s", pattern, k.Text())
		}
	}
}

// muteServer returns the address of a server that never responds.
func muteServer(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// A waiting person is told the reason. After giving up, nothing more is printed.
func TestTerminal_CommandsSayWhatTheyWaitFor(t *testing.T) {
	address := muteServer(t)
	folder := configure(t, map[string]string{"team.hcl": fmt.Sprintf("team \"docs\" {\n upstream \"wiki\" { url = \"http://%s/mcp\" }\n}", address)})
	for _, test := range []struct {
		args, waiting string
		signal        os.Signal
		code          int
		end           string
	}{
		{"list --config " + folder, "wiki: http://" + address + "/mcp", os.Interrupt, 130, "interrupted"},
		{"get wiki.a --config " + folder, "wiki: http://" + address + "/mcp", syscall.SIGTERM, 143, "terminated"},
		{"validate --live --config " + folder, "wiki: http://" + address + "/mcp", os.Interrupt, 130, "interrupted"},
		{"list --url http://" + address + "/mcp", "http://" + address + "/mcp", os.Interrupt, 130, "interrupted"},
	} {
		k := terminaltest.Open(t)
		command := exec.CommandContext(t.Context(), program(t, "promptweir"), strings.Fields(test.args)...)
		command.Stderr = k.Device
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the terminal says what is waited for", func() bool { return k.Shows("promptweir: waiting for " + test.waiting + "\r\n") })
		if err := command.Process.Signal(test.signal); err != nil {
			t.Fatal(err)
		}
		failed, ok := errors.AsType[*exec.ExitError](command.Wait())
		end := "promptweir: " + test.end + "\n"
		eventually(t, "the terminal shows the end", func() bool { return strings.HasSuffix(k.Text(), end) })
		if want := "promptweir: waiting for " + test.waiting + "\n" + end; !ok || failed.ExitCode() != test.code || k.Text() != want {
			t.Errorf("%s ends with %v and shows %q, want %d and %q", test.args, failed, k.Text(), test.code, want)
		}
	}
}

// A server that a client's file would start is shown once with a question; then the person sees the next steps.
func TestTerminal_TryAsksBeforeItStartsCommands(t *testing.T) {
	greeter, file := program(t, "greeter"), filepath.Join(t.TempDir(), ".mcp.json")
	writeFile(t, filepath.Dir(file), ".mcp.json", fmt.Sprintf(`{"mcpServers": {"one": {"command": %q, "args": ["--token=hunter2"]},
		"two": {"command": "no-such", "args": [%q, "\u001b]0;x\u0007\u202e"], "cwd": "/", "env": {"NODE_OPTIONS": "-r x", "A_TOKEN": "x; evil"}}}}`,
		greeter, strings.Repeat("-", 600)+"end"))
	for answer, wants := range map[string][]string{
		"y\r":  {"  look    http://127.0.0.1:", "/sign-in?code=", "  use     ", "upstream down"},
		"\r":   {"there is nothing to serve"},
		"\x04": {"there is nothing to serve"},
		"\x03": {"\npromptweir: interrupted"},
	} {
		t.Run(fmt.Sprintf("%q", answer), func(t *testing.T) {
			t.Parallel()
			k := terminaltest.Open(t)
			command := exec.CommandContext(t.Context(), program(t, "promptweir"), "try", "--port", "0", file)
			command.Stdin, command.Stdout, command.Stderr = k.Device, k.Device, k.Device
			command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			k.Type(t, "? [y/N]", answer)
			for _, want := range wants {
				k.Await(t, want)
			}
			for _, want := range []string{
				`--token=${env("ONE_TOKEN of the client's file")}"]`, `-end", "\u001b]0;x\u0007\u202e"]`, `dir     = "/"`,
				`NODE_OPTIONS of the client's file is "-r x"`, `A_TOKEN of the client's file is "x; evil"`,
				`ONE_TOKEN of the client's file is "hunter2"`, // each word, because it may be code
			} {
				if !strings.Contains(strings.ReplaceAll(k.Text(), "\r\n", ""), want) {
					t.Errorf("the terminal does not show %s:\n%s", want, k.Text())
				}
			}
			_ = command.Process.Signal(syscall.SIGINT)
			_ = command.Wait()
		})
	}
}

// A person sees what changes before it is approved.
func TestTerminal_LockAsksBeforeItApproves(t *testing.T) {
	for answer, want := range map[string]string{"y\r": "eng.new: added", "\r": "promptweir: nothing was approved"} {
		folder := configure(t, map[string]string{"team.hcl": "team \"eng\" {\n  upstream \"eng\" { files = [\"*.md\"] }\n}", "new.md": "New."})
		k := terminaltest.Open(t)
		command := exec.CommandContext(t.Context(), program(t, "promptweir"), "lock", "--config", folder)
		command.Stdin, command.Stdout, command.Stderr = k.Device, k.Device, k.Device
		command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		k.Await(t, "\x1b[32m+ eng.new of upstream eng is not approved\x1b[0m")
		k.Type(t, "Approve 1 change? [y/N]", answer)
		k.Await(t, want)
		err := command.Wait()
		_, noFile := os.Stat(filepath.Join(folder, "promptweir.lock.hcl"))
		if approves := answer == "y\r"; (err == nil) != approves || (noFile == nil) != approves {
			t.Errorf("%q: %v, %v", answer, err, noFile)
		}
	}
}

// Without --to, a person is asked for the clients.
func TestTerminal_SyncAsksForTheClients(t *testing.T) {
	home, k := inHome(t), terminaltest.Open(t)
	g := gatewaytest.ServeReloadable(t, `team "eng" {}`, gateway.Options{})
	putFile(t, filepath.Dir(g.Path), "p/a.md", "Say a.")
	g.MustReload(`team "eng" {
  upstream "book" { files = ["p/*.md"] }
}`)
	g.AwaitUpstreams()
	command := exec.CommandContext(t.Context(), program(t, "promptweir"), "sync", "--url", g.URL)
	command.Stdin, command.Stdout, command.Stderr = k.Device, k.Device, k.Device
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	k.Type(t, "Write for which clients", "claude\r")
	if err := command.Wait(); err != nil {
		t.Fatalf("%v:\n%s", err, k.Text())
	}
	if _, err := os.Stat(filepath.Join(home, ".claude", "commands", "book.a.md")); err != nil {
		t.Errorf("%v:\n%s", err, k.Text())
	}
}
