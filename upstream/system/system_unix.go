//go:build unix && !linux

package system

import (
	"os/exec"
	"syscall"
	"time"
)

// OwnGroup gives a process that is to be started a group of its own, so that its descendants can be killed
// with it, and a Ctrl-C at the terminal reaches the gateway only.
func OwnGroup(command *exec.Cmd) error {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return nil
}

// SignalGroup signals the whole group of a process.
func SignalGroup(command *exec.Cmd, signal syscall.Signal) {
	// ESRCH means that the group is gone, as wanted.
	_ = syscall.Kill(-command.Process.Pid, signal)
}

// SetUserTimeout does nothing: these systems have no such option, or another for each of them.
func SetUserTimeout(syscall.RawConn, time.Duration) error { return nil }
