package system

import (
	"errors"
	"os/exec"
	"syscall"
	"time"
)

// OwnGroup refuses the process. Windows has no process groups and no signal that asks a process to
// end.
func OwnGroup(*exec.Cmd) error { return errors.ErrUnsupported }

// SignalGroup is never called, because no process is started.
func SignalGroup(*exec.Cmd, syscall.Signal) {}

// SetUserTimeout does nothing: Windows has no such option.
func SetUserTimeout(syscall.RawConn, time.Duration) error { return nil }

// HideMemory does nothing: Windows has no way to forbid a user's own processes to read each other.
func HideMemory() error { return nil }

// DescriptorLimit returns how many handles the process may open. Only memory limits them on
// Windows.
func DescriptorLimit() int { return maxDescriptors }

// HasInput returns nil. On Windows only a read can find out.
func HasInput(syscall.RawConn) func() bool { return nil }
