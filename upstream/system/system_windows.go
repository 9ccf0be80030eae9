package system

import (
	"errors"
	"os/exec"
	"syscall"
	"time"
)

// OwnGroup refuses the process. Windows has no process groups, and no signal that asks a process to
// end.
func OwnGroup(*exec.Cmd) error { return errors.ErrUnsupported }

// SignalGroup is never called, as no process is started.
func SignalGroup(*exec.Cmd, syscall.Signal) {}

// SetUserTimeout does nothing: Windows has no such option.
func SetUserTimeout(syscall.RawConn, time.Duration) error { return nil }

// HideMemory does nothing: Windows has no way to forbid a user's own processes to read each other.
func HideMemory() error { return nil }

// DescriptorLimit returns how many handles the process may have, on which Windows sets no limit
// below its memory.
func DescriptorLimit() int { return maxDescriptors }

// HasInput returns false: Windows tells that only to a read.
func HasInput(syscall.RawConn) bool { return false }
