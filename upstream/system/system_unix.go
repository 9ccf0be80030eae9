//go:build unix

package system

import (
	"errors"
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

// HasInput reports whether something can be read from a connection without waiting: bytes, its end, or an error.
func HasInput(connection syscall.RawConn) bool {
	has := true
	err := connection.Control(func(fd uintptr) {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
		has = !errors.Is(err, syscall.EAGAIN)
	})
	return has || err != nil
}
