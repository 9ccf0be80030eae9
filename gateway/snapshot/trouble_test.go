package snapshot_test

import (
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/promptweir/promptweir/gateway/snapshot/snapshottest"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestTroubles_SayWhatWhereWhyAndWhatNext(t *testing.T) {
	gone := &snapshottest.Upstream{Starting: true}
	gone.Fail(upstream.Unreachable, &net.OpError{
		Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
	})
	s := snapshottest.New(t, `team "eng" {
  upstream "billing" { url = "http://127.0.0.1:1/billing" }
  upstream "gone" { url = "http://127.0.0.1:1/gone" }
}
`, snapshottest.Upstreams{"billing": {Definitions: []string{`{"name":"ledger"}`}}, "gone": gone}).Current()
	all := s.Troubles()
	if len(all) != 1 || all[0].Upstream != "gone" || all[0].Problem.Reason != upstream.Unreachable || all[0].Team != "eng" {
		t.Fatalf("got %+v, want the one that is down", all)
	}
	upstreamtest.Equal(t, "gone ("+all[0].Place+") is down: connection refused at the address in the URL; start the server, or correct host and port in the URL",
		all[0].String(), "the trouble")
}
