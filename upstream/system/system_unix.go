//go:build unix

package system

import (
	"os/exec"
	"syscall"
)

// SignalGroup signals the whole group of a process.
func SignalGroup(command *exec.Cmd, signal syscall.Signal) {
	// ESRCH means that the group is gone, as wanted.
	_ = syscall.Kill(-command.Process.Pid, signal)
}

// DescriptorLimit returns how many descriptors the process may have. Go has raised it as far as it
// may.
func DescriptorLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > maxDescriptors {
		return maxDescriptors
	}
	return int(limit.Cur)
}
