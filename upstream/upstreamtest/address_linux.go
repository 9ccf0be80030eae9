package upstreamtest

import (
	"net/netip"
	"syscall"
	"testing"
)

// Address returns an address of the loopback interface that is the test's until it ends: it can be
// listened at again and again, and nobody gets its port as one that is free. On other systems than
// Linux somebody may get it while nobody listens.
func Address(tb testing.TB) string {
	tb.Helper()
	// A socket that is bound and does not listen keeps the port from those that want any. As long
	// as all share the address, it does not keep it from those that want this one: net.Listen
	// shares, and so do most programs.
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = syscall.Close(fd) })
	loopback := [4]byte{127, 0, 0, 1}
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		tb.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: loopback}); err != nil {
		tb.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		tb.Fatal(err)
	}
	port := bound.(*syscall.SockaddrInet4).Port                                 //nolint:forcetypeassert // of this family
	return netip.AddrPortFrom(netip.AddrFrom4(loopback), uint16(port)).String() //nolint:gosec // a port
}
