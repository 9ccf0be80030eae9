package main

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// As systemd sees a unit with Type=notify.
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
