package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// guarded is a configuration that logs each refused caller at the level debug.
func guarded(t *testing.T) string {
	t.Helper()
	return configure(t, map[string]string{"auth.hcl": `auth {
  token "ann" { sha256 = sha256("ann") }
}`, "team.hcl": fmt.Sprintf(`
team "greeters" {
  members = ["user:ann"]
  upstream "greeter" { command = [%q] }
}`, program(t, "greeter"))})
}

// serveUnread starts promptweir serve, and reads its log only up to the addresses.
func serveUnread(t *testing.T, config string) (p *gatewayProcess, log *os.File) {
	t.Helper()
	args := []string{"serve", "--config", config, "--log-format", "json", "--log-level", "debug"}
	command := exec.CommandContext(context.Background(), program(t, "promptweir"), args...)
	p = &gatewayProcess{process: process{command}, eof: make(chan struct{})}
	log, stderr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Stderr = stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	_ = stderr.Close()
	go func() {
		_ = p.Wait()
		close(p.eof)
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.eof
		_ = log.Close()
	})
	for lines := bufio.NewScanner(log); p.endpoint == ""; {
		if !lines.Scan() {
			t.Fatalf("the log ended before the gateway listened; last: %s", lines.Text())
		}
		p.readAddresses(lines.Bytes())
	}
	return p, log
}

func TestServe_DoesNotWaitForAReaderOfItsLog(t *testing.T) {
	for name, prepare := range map[string]func(log *os.File){
		"that does not read": func(*os.File) {},
		"that leaves":        func(log *os.File) { _ = log.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			p, log := serveUnread(t, guarded(t))
			prepare(log)
			for range 600 { // more than the 64 KiB of a pipe
				if got := p.list(t, "bob"); got.status != 401 {
					t.Fatalf("a wrong token gets status %d, want 401", got.status)
				}
			}
			p.awaitUpstreams(t)
			if got := p.get(t, "greeter.pid", "ann").text(); got == "" {
				t.Error("a get is not answered")
			}
			upstreamtest.Equal(t, exitDone, p.stop(t), "exit code")
		})
	}
}

func TestStdio_EndsInOrder(t *testing.T) {
	config := configure(t, map[string]string{"team.hcl": greeterTeam(t)})
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`
	const get = `{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"greeter.pid"}}`
	for name, leave := range map[string]func(*testing.T, *stdioProcess){
		"at SIGHUP": func(t *testing.T, p *stdioProcess) { p.signal(t, syscall.SIGHUP) },
		"when nobody reads its output": func(_ *testing.T, p *stdioProcess) {
			_ = p.out.Close()
			_, _ = io.WriteString(p.in, get+"\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			p := startStdio(t, config, &log)
			p.send(t, initialize)
			p.receive(t)
			child := 0
			eventually(t, "the child answers", func() bool { // clients do not wait for long for an upstream that is slow to start
				p.send(t, get)
				response := p.receive(t)
				child, _ = strconv.Atoi(response.text())
				return child != 0
			})
			leave(t, p)
			if err := p.Wait(); err != nil {
				t.Errorf("the process ends with %v:\n%s", err, log.String())
			}
			if exists(child) {
				t.Error("the child process is still there")
			}
		})
	}
}

func TestShowable_LeavesNoEscapeSequence(t *testing.T) {
	for value, want := range map[string]string{"plain text": "plain text", "\x1b[2J\u202egone\nbye": "\ufffd[2J\ufffdgone bye"} {
		upstreamtest.Equal(t, want, showable(nil, slog.Any("error", errors.New(value))).Value.String(), "%q", value)
	}
}
