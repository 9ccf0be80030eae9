package client

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the kernel kill a process that is to be started when the thread ends that starts
// it, and so with the gateway. Most would exit by themselves, because their stdin ends, but not those
// that hang.
func dieWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }

// setUserTimeout makes the kernel close a connection whose bytes are not acknowledged for userTimeout.
// Without it, it tries for a quarter of an hour.
func setUserTimeout(connection syscall.RawConn) error {
	var failure error
	err := connection.Control(func(fd uintptr) {
		milliseconds := int(userTimeout.Milliseconds())
		failure = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, milliseconds)
	})
	if err != nil {
		return err
	}
	return failure
}
