//go:build unix

package clustertest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process runs the program of a store.
type process struct {
	program string
	args    []string

	running *os.Process   // nil while no program runs
	ended   chan struct{} // closed when the program has ended
}

// StartSentinel starts a Sentinel that watches a store under a name.
func StartSentinel(tb testing.TB, name string, store *Store, settings ...string) *Store {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "sentinel.conf") // Sentinel rewrites the file
	text := fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1\n", name, store.Port)
	if err := os.WriteFile(path, []byte(text+strings.Join(settings, "\n")+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	return StartServer(tb, path, "--sentinel")
}

func (p *process) start(tb testing.TB, port int) error {
	var args []string
	if len(p.args) > 0 && strings.HasSuffix(p.args[0], ".conf") {
		args = p.args
	} else {
		args = append([]string{"--save", "", "--appendonly", "no", "--dir", tb.TempDir()}, p.args...)
	}
	args = append(args, "--port", strconv.Itoa(port), "--bind", "127.0.0.1")
	cmd := exec.Command(p.program, args...) //nolint:noctx // kill ends the program
	output := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // returns an error after kill
		close(ended)
	}()
	p.running, p.ended = cmd.Process, ended
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		select {
		case <-ended:
			p.running = nil
			return fmt.Errorf("%s does not start:\n%s", p.program, output)
		default:
		}
		if command(port, "PING") != "" {
			return nil
		}
	}
	p.kill()
	return fmt.Errorf("%s does not answer:\n%s", p.program, output)
}

func (p *process) kill() {
	if p.running != nil {
		_ = p.running.Kill() // the program may have ended
		<-p.ended
		p.running = nil
	}
}

func (p *process) pause() { _ = p.running.Signal(syscall.SIGSTOP) }

func (p *process) resume() { _ = p.running.Signal(syscall.SIGCONT) }

// find returns the path of valkey-server or redis-server.
func find() (string, error) {
	for _, name := range []string{"valkey-server", "redis-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("needs valkey-server or redis-server on PATH")
}
