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

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// process is the program of a store.
type process struct {
	program string
	args    []string

	running *os.Process   // nil while there is none
	ended   chan struct{} // is closed when it has ended
}

// StartSentinel starts a Sentinel that watches a store under a name.
func StartSentinel(tb testing.TB, name string, store *Store, settings ...string) *Store {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "sentinel.conf") // it writes there
	text := fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1\n", name, store.Port)
	if err := os.WriteFile(path, []byte(text+strings.Join(settings, "\n")+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	return StartServer(tb, path, "--sentinel")
}

// Failover is a store of a master and its replica, which a Sentinel promotes when the master has
// not answered for two seconds.
type Failover struct {
	Master, Replica, Sentinel *Store
}

// MasterSet is the name by which the Sentinel knows the store of a [Failover].
const MasterSet = "main"

// StartFailover starts all three, and waits until the replica can take the master's place.
func StartFailover(tb testing.TB) *Failover {
	tb.Helper()
	f := &Failover{Master: StartServer(tb, "--repl-diskless-sync-delay", "0")}
	f.Replica = StartServer(tb, "--replicaof", "127.0.0.1", strconv.Itoa(f.Master.Port))
	upstreamtest.Eventually(tb, "the replica has what the master has", func() bool {
		return strings.Contains(f.Replica.Command("INFO", "replication"), "master_link_status:up")
	})
	f.Sentinel = StartSentinel(tb, MasterSet, f.Master,
		"sentinel down-after-milliseconds main 2000", "sentinel failover-timeout main 5000")
	upstreamtest.Eventually(tb, "the Sentinel knows the replica", func() bool {
		return strings.Contains(f.Sentinel.Command("SENTINEL", "REPLICAS", MasterSet), strconv.Itoa(f.Replica.Port))
	})
	return f
}

// IsOver reports whether the replica is the master by now.
func (f *Failover) IsOver() bool { return strings.Contains(f.Replica.Command("ROLE"), "master") }

func (p *process) start(tb testing.TB, port int) error {
	var args []string
	if len(p.args) > 0 && strings.HasSuffix(p.args[0], ".conf") {
		args = p.args
	} else {
		args = append([]string{"--save", "", "--appendonly", "no", "--dir", tb.TempDir()}, p.args...)
	}
	args = append(args, "--port", strconv.Itoa(port), "--bind", "127.0.0.1")
	cmd := exec.Command(p.program, args...) //nolint:noctx // it ends with the test
	output := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed
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
		_ = p.running.Kill() // or it has ended
		<-p.ended
		p.running = nil
	}
}

func (p *process) pause() { _ = p.running.Signal(syscall.SIGSTOP) }

func (p *process) resume() { _ = p.running.Signal(syscall.SIGCONT) }

// find returns the path of the program.
func find() (string, error) {
	for _, name := range []string{"valkey-server", "redis-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("needs valkey-server or redis-server on PATH")
}
