//go:build unix && !linux

package system

import (
	"os/exec"
	"syscall"
	"time"
)

// OwnGroup makes a command start in a process group of its own, so that its descendants can be
// killed with it, and a Ctrl-C at the terminal reaches only the gateway.
func OwnGroup(command *exec.Cmd) error {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return nil
}

// SetUserTimeout does nothing: these systems have no TCP_USER_TIMEOUT.
func SetUserTimeout(syscall.RawConn, time.Duration) error { return nil }

// HideMemory does nothing: on these systems, either only root can read another process's memory, or
// nothing can prevent it.
func HideMemory() error { return nil }
