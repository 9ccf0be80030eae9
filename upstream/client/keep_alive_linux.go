package client

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// setUserTimeout makes the kernel close a connection whose bytes are not acknowledged for userTimeout. Without it, it tries for a
// quarter of an hour.
func setUserTimeout(connection syscall.RawConn) error {
	var failure error
	err := connection.Control(func(fd uintptr) {
		failure = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failure
}
