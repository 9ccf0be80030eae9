package system

import (
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// OwnGroup makes a command start in a process group of its own, so that its descendants can be
// killed with it, and a Ctrl-C at the terminal reaches only the gateway. The kernel kills the
// process when the thread that started it ends.
func OwnGroup(command *exec.Cmd) error {
	// When the gateway is killed, most children exit because their stdin ends. Pdeathsig kills the
	// children that hang.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return nil
}

// SetUserTimeout makes the kernel close a connection if sent bytes are not acknowledged within the
// timeout (RFC 5482). The kernel's default is a quarter of an hour.
func SetUserTimeout(connection syscall.RawConn, timeout time.Duration) error {
	var failure error
	err := connection.Control(func(fd uintptr) {
		milliseconds := int(timeout.Milliseconds())
		failure = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, milliseconds)
	})
	if err != nil {
		return err
	}
	return failure
}

// HideMemory prevents other processes of the same user from reading the memory and environment of
// this process. They contain the cursor keys and the secrets of all teams, and the servers that the
// gateway starts run as the same user. The kernel also writes no core dump. Children become
// readable again when they execute their programs, and root can read everything (prctl(2),
// PR_SET_DUMPABLE; ptrace(2), "Ptrace access mode checking").
func HideMemory() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}
