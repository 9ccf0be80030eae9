//go:build unix

package system

import (
	"errors"
	"os/exec"
	"syscall"
)

// SignalGroup sends a signal to the process group of a command. It ignores errors.
func SignalGroup(command *exec.Cmd, signal syscall.Signal) {
	// The usual error, ESRCH, means that the group has already ended.
	_ = syscall.Kill(-command.Process.Pid, signal)
}

// DescriptorLimit returns the number of descriptors that the process may open. The Go runtime has
// raised it to the hard limit.
func DescriptorLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > maxDescriptors {
		return maxDescriptors
	}
	return int(limit.Cur)
}

// HasInput reports whether a read from a non-blocking socket would return at once: with bytes, the
// end or an error. It uses the memory of buffer, which must have at least one byte.
func HasInput(socket uintptr, buffer []byte) bool {
	_, _, err := syscall.Recvfrom(int(socket), buffer[:1], syscall.MSG_PEEK)
	return !errors.Is(err, syscall.EAGAIN)
}
