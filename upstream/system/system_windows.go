package system

import (
	"errors"
	"os/exec"
	"syscall"
	"time"
)

// OwnGroup refuses the process. Windows has no process groups, and no signal that asks a process to end.
func OwnGroup(*exec.Cmd) error { return errors.ErrUnsupported }

// SignalGroup is never called, as no process is started.
func SignalGroup(*exec.Cmd, syscall.Signal) {}

// SetUserTimeout does nothing: Windows has no such option.
func SetUserTimeout(syscall.RawConn, time.Duration) error { return nil }
