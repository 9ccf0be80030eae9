package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The view of systemd on a unit with Type=notify.
func TestServe_TellsTheServiceManager(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	want := func(state string) {
		t.Helper()
		message := make([]byte, 1000)
		_ = manager.SetReadDeadline(time.Now().Add(timeout))
		n, err := manager.Read(message)
		if got := string(message[:n]); err != nil || got != state {
			t.Fatalf("the service manager is told %q (%v), want %q", got, err, state)
		}
	}
	p := serve(t, configure(t, map[string]string{"eng.hcl": `team "eng" {}`}), "NOTIFY_SOCKET="+socket)
	want("READY=1")
	p.signal(t, syscall.SIGHUP)
	want("RELOADING=1")
	want("READY=1")
	p.signal(t, syscall.SIGTERM)
	want("STOPPING=1")
}

// systemctl reload runs the unit's commands one after another until one fails.
func TestUnit_ReloadReportsAMistakeAndOpensTheAuditLogAgain(t *testing.T) {
	unit, err := os.ReadFile("../../examples/systemd/promptweir.service")
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	folder := configure(t, map[string]string{"audit.hcl": "audit { path = " + strconv.Quote(log) + " }", "eng.hcl": `team "eng" {}`})
	p := serve(t, folder)
	reload := func() (out string, ok bool) {
		commands := regexp.MustCompile(`(?m)^ExecReload=(.*)$`).FindAllStringSubmatch(string(unit), -1)
		if len(commands) != 2 {
			t.Fatalf("the unit has %q", commands)
		}
		signal := strings.Fields(strings.ReplaceAll(commands[0][1], "$MAINPID", strconv.Itoa(p.Process.Pid)))
		if out, err := exec.CommandContext(t.Context(), signal[0], signal[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", signal, err, out)
		}
		// The port differs from the configuration's, which is 0.
		line := strings.ReplaceAll(commands[1][1], "--config /etc/promptweir", "--admin "+p.admin)
		stdout, stderr, code := runHere(t, strings.Fields(line)[1:]...)
		return stdout + stderr, code == exitDone
	}
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	if out, ok := reload(); !ok {
		t.Fatal(out)
	}
	eventually(t, "the log is open again", func() bool {
		text, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(text), `"event":"reload"`)
	})
	if err := os.WriteFile(filepath.Join(folder, "eng.hcl"), []byte(`team "eng" { nonsense = 1 }`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, ok := reload(); ok || !strings.Contains(out, "nonsense") {
		t.Errorf("a mistake is reported as success: %t, %s", ok, out)
	}
}
