package client

import (
	"errors"
	"os/exec"
	"syscall"
)

var errNoChildren = errors.New("the gateway starts no child processes on Windows, where it could not end what they leave behind: " +
	"run the gateway under WSL or in a container, or run the server by itself and set url")

// ownGroup refuses the process. Windows has no process groups, and no signal that asks a process to end.
func ownGroup(*exec.Cmd) error { return errNoChildren }

// signalGroup is never called, as no process is started.
func signalGroup(*exec.Cmd, syscall.Signal) {}
