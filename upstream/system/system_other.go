//go:build unix && !linux

package system

import (
	"os/exec"
	"syscall"
	"time"
)

// OwnGroup gives a process that is to be started a group of its own, so that its descendants can be
// killed with it, and a Ctrl-C at the terminal reaches the gateway only.
func OwnGroup(command *exec.Cmd) error {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return nil
}

// SetUserTimeout does nothing: these systems have no such option, or another for each of them.
func SetUserTimeout(syscall.RawConn, time.Duration) error { return nil }

// HideMemory does nothing: here only root reads another process's memory, or there is no way to
// forbid it.
func HideMemory() error { return nil }
