//go:build unix

package system

import (
	"errors"
	"os/exec"
	"syscall"
)

// SignalGroup signals the whole group of a process.
func SignalGroup(command *exec.Cmd, signal syscall.Signal) {
	// ESRCH means that the group is already gone.
	_ = syscall.Kill(-command.Process.Pid, signal)
}

// DescriptorLimit returns how many descriptors the process may open. Go has raised the limit to its
// maximum.
func DescriptorLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > maxDescriptors {
		return maxDescriptors
	}
	return int(limit.Cur)
}

// HasInput returns a function that reports whether a read from the connection would return at once:
// with bytes, the end or an error. The function allocates no memory. Only one goroutine at a time
// may call it.
func HasInput(connection syscall.RawConn) func() bool {
	var one [1]byte
	var has bool
	look := func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
		has = !errors.Is(err, syscall.EAGAIN)
	}
	return func() bool { return connection.Control(look) != nil || has }
}
