package upstreamtest_test

import (
	"net"
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// All other ports are taken from those that are free, so that the only one left would be it.
func TestAddress_IsTheTestsWhileNobodyListens(t *testing.T) {
	address := upstreamtest.Address(t)
	for range 3 {
		l, err := net.Listen("tcp", address) //nolint:noctx // it does not block
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	}
	for range 2000 {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not block
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if l.Addr().String() == address {
			t.Fatal("somebody else got it")
		}
	}
}
