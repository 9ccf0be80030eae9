package client

import (
	"os/exec"
	"syscall"
)

// ownGroup refuses the process. Windows has no process groups, and no signal that asks a process to end.
func ownGroup(*exec.Cmd) error { return errNoChildren }

// signalGroup is never called, as no process is started.
func signalGroup(*exec.Cmd, syscall.Signal) {}
