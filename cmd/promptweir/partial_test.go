package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/serving"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
)

// muteServer returns the address of a server that accepts connections and says nothing, and a
// channel that is closed when the first connection has come.
func muteServer(t *testing.T) (address string, called <-chan struct{}) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	first := make(chan struct{})
	go func() {
		var held []net.Conn
		for {
			conn, err := listener.Accept()
			if err != nil {
				break
			}
			if held = append(held, conn); len(held) == 1 {
				close(first)
			}
		}
		for _, conn := range held {
			_ = conn.Close()
		}
	}()
	return listener.Addr().String(), first
}

func TestCommands_SayThatTheyWereInterrupted(t *testing.T) {
	for signal, want := range map[os.Signal]struct {
		code int
		said string
	}{os.Interrupt: {130, "promptweir: interrupted\n"}, syscall.SIGTERM: {143, "promptweir: terminated\n"}} {
		address, called := muteServer(t)
		folder := configure(t, map[string]string{"team.hcl": fmt.Sprintf("team \"docs\" {\n upstream \"wiki\" { url = \"http://%s/mcp\" }\n}", address)})
		command := exec.CommandContext(t.Context(), program(t, "promptweir"), "list", "--config", folder)
		var stderr bytes.Buffer
		command.Stderr = &stderr
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		<-called
		if err := command.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		err := command.Wait()
		failed, ok := errors.AsType[*exec.ExitError](err)
		if !ok || failed.ExitCode() != want.code || stderr.String() != want.said {
			t.Errorf("%v: %v with %q, want exit code %d with %q", signal, err, stderr.String(), want.code, want.said)
		}
	}
}

func TestWarnOfWaiting_NamesEachUpstreamThatTakesLong(t *testing.T) {
	address, _ := muteServer(t)
	folder := configure(t, map[string]string{"team.hcl": fmt.Sprintf(`
team "docs" {
  upstream "wiki" { url = "http://%s/mcp" }
  upstream "gone" { command = ["no-such-command"] }
}`, address)})
	cfg, diagnostics := config.Load(folder, config.Options{})
	if diagnostics.HasErrors() {
		t.Fatal(diagnostics)
	}
	want := fmt.Sprintf("promptweir: waiting for wiki: http://%s/mcp\n", address)
	err := serving.With(t.Context(), cfg, gateway.Options{}, func(g *gateway.Gateway) error {
		eventually(t, "only the other one was tried", func() bool {
			var out strings.Builder
			(&app{err: &out}).warnOfWaiting(g.Snapshot())
			return out.String() == want
		})
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
