//go:build unix

package client

import (
	"os/exec"
	"syscall"
)

// ownGroup gives a process that is to be started a group of its own, so that its descendants can be
// killed with it, and a Ctrl-C at the terminal reaches the gateway only.
func ownGroup(command *exec.Cmd) error {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(command.SysProcAttr)
	return nil
}

// signalGroup signals the whole group of a process.
func signalGroup(command *exec.Cmd, signal syscall.Signal) {
	// ESRCH means that the group is gone, as wanted.
	_ = syscall.Kill(-command.Process.Pid, signal)
}
