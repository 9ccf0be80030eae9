//go:build !linux

package upstreamtest

import (
	"net"
	"testing"
)

// Address returns an address of the loopback interface that is free at the moment.
func Address(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not block
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
