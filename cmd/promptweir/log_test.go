package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
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

// serveUnread starts promptweir serve, and reads its log no further than to the addresses.
func serveUnread(t *testing.T, config string) (p *gatewayProcess, log *os.File) {
	t.Helper()
	command := exec.CommandContext(context.Background(), program(t, "promptweir"), "serve", "--config", config, "--log-format", "json", "--log-level", "debug")
	log, stderr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = stderr
	p = &gatewayProcess{Cmd: command, eof: make(chan struct{})}
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
		var record struct{ Msg, Endpoint, Admin string }
		if !lines.Scan() {
			t.Fatalf("the log ended before the gateway listened; last: %s", lines.Text())
		}
		if json.Unmarshal(lines.Bytes(), &record) == nil && record.Msg == "listening" {
			p.endpoint, p.admin = record.Endpoint, record.Admin
		}
	}
	return p, log
}

func TestServe_DoesNotWaitForItsLog(t *testing.T) {
	p, _ := serveUnread(t, guarded(t))
	refuseMany(t, p)
	p.awaitUpstreams(t)
	if got := p.get(t, "greeter.pid", "ann").text(); got == "" {
		t.Error("a get is not answered while nobody reads the log")
	}
	if code := p.stop(t); code != exitDone {
		t.Errorf("exit code %d, want %d", code, exitDone)
	}
}

// refuseMany has more logged than fits into a pipe, which is 64 KiB.
func refuseMany(t *testing.T, p *gatewayProcess) {
	t.Helper()
	for range 600 {
		if got := p.list(t, "bob"); got.status != 401 {
			t.Fatalf("a wrong token gets status %d, want 401", got.status)
		}
	}
}

func TestServe_SurvivesAReaderOfItsLogThatLeaves(t *testing.T) {
	p, log := serveUnread(t, guarded(t))
	_ = log.Close()
	refuseMany(t, p)
	p.awaitUpstreams(t)
	if got := p.get(t, "greeter.pid", "ann").text(); got == "" {
		t.Error("a get is not answered once nobody reads the log any more")
	}
	if code := p.stop(t); code != exitDone {
		t.Errorf("exit code %d, want %d", code, exitDone)
	}
}

func TestStdio_EndsInOrder(t *testing.T) {
	config := configure(t, map[string]string{"team.hcl": fmt.Sprintf(`team "greeters" {
  upstream "greeter" { command = [%q] }
}`, program(t, "greeter"))})
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`
	const get = `{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"greeter.pid"}}`
	for name, leave := range map[string]func(*exec.Cmd, io.WriteCloser, io.ReadCloser){
		"at SIGHUP": func(p *exec.Cmd, _ io.WriteCloser, _ io.ReadCloser) { _ = p.Process.Signal(syscall.SIGHUP) },
		"when nobody reads its output": func(_ *exec.Cmd, in io.WriteCloser, out io.ReadCloser) {
			_ = out.Close()
			_, _ = io.WriteString(in, get+"\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := exec.CommandContext(context.Background(), program(t, "promptweir"), "stdio", "--config", config)
			in, err := p.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := p.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			p.Stderr = &log
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			defer p.Process.Kill() //nolint:errcheck // it has ended
			if _, err := io.WriteString(in, initialize+"\n"+get+"\n"); err != nil {
				t.Fatal(err)
			}
			child := 0
			for lines := bufio.NewScanner(out); child == 0 && lines.Scan(); {
				var response rpcResponse
				if err := json.Unmarshal(lines.Bytes(), &response); err != nil {
					t.Fatalf("%v: %s", err, lines.Bytes())
				}
				if response.Error != nil { // the upstream is slow to start, and clients do not wait for it for long
					time.Sleep(10 * time.Millisecond)
					if _, err := io.WriteString(in, get+"\n"); err != nil {
						t.Fatal(err)
					}
				}
				child, _ = strconv.Atoi(response.text())
			}
			if child == 0 {
				t.Fatalf("no child process:\n%s", log.String())
			}
			leave(p, in, out)
			if err := p.Wait(); err != nil {
				t.Errorf("the process ends with %v:\n%s", err, log.String())
			}
			if exists(child) {
				t.Error("the child process is still there")
			}
		})
	}
}

// A client that starts the gateway need not read its log to the end.
func TestStdio_SurvivesAReaderOfItsLogThatLeaves(t *testing.T) {
	config := configure(t, map[string]string{"team.hcl": fmt.Sprintf(`team "greeters" {
  upstream "greeter" { command = [%q] }
}`, program(t, "greeter"))})
	p := exec.CommandContext(context.Background(), program(t, "promptweir"), "stdio", "--config", config, "--log-level", "debug")
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	defer p.Process.Kill() //nolint:errcheck // it has ended
	lines := bufio.NewScanner(out)
	// getPid returns the child's process ID, or 0 if it cannot be had at this moment.
	getPid := func(id int) int {
		t.Helper()
		if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"prompts/get","params":{"name":"greeter.pid",%s}}`+"\n", id, modernMeta); err != nil {
			t.Fatal(err)
		}
		if !lines.Scan() {
			t.Fatalf("it ended instead of answering: %v", lines.Err())
		}
		var response rpcResponse
		if err := json.Unmarshal(lines.Bytes(), &response); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		pid, _ := strconv.Atoi(response.text())
		return pid
	}
	first := 0
	eventually(t, "the child answers", func() bool { first = getPid(1); return first != 0 })
	_ = log.Close()
	child, err := os.FindProcess(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Kill(); err != nil { // which is logged
		t.Fatal(err)
	}
	second := 0
	eventually(t, "another child answers", func() bool { second = getPid(2); return second != 0 && second != first })
	_ = in.Close()
	if err := p.Wait(); err != nil {
		t.Errorf("the process ends with %v", err)
	}
	if exists(second) {
		t.Error("the child process is still there")
	}
}
