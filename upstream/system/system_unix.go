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
