package system

import (
	"errors"
	"os/exec"
	"syscall"
	"time"
)

// OwnGroup returns [errors.ErrUnsupported], so that the command is not started. Windows has no
// process groups, and no signal that asks a process to end.
func OwnGroup(*exec.Cmd) error { return errors.ErrUnsupported }

// SignalGroup does nothing. It is never called, because OwnGroup lets no process start.
func SignalGroup(*exec.Cmd, syscall.Signal) {}

// SetUserTimeout does nothing: Windows has no such option.
func SetUserTimeout(syscall.RawConn, time.Duration) error { return nil }

// HideMemory does nothing: Windows cannot prevent a user's processes from reading each other's
// memory.
func HideMemory() error { return nil }

// DescriptorLimit returns maxDescriptors: on Windows only memory limits the handles.
func DescriptorLimit() int { return maxDescriptors }

// HasInput returns false: on Windows only a read shows whether there is input.
func HasInput(uintptr, []byte) bool { return false }
