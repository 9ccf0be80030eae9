package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestDialGuard_RefusesTheGatewaysOwnAddress(t *testing.T) {
	own := httptest.NewServer(http.NotFoundHandler())
	defer own.Close()
	address := netip.MustParseAddrPort(own.Listener.Addr().String())
	everywhere := netip.AddrPortFrom(netip.IPv4Unspecified(), address.Port())
	for host, bound := range map[string]netip.AddrPort{
		"127.0.0.1": address, "localhost": address, "0.0.0.0": address, "127.0.0.2": everywhere, "[::ffff:127.0.0.1]": everywhere,
	} {
		p := &gatewaytest.Peer{Name: "self", URL: strings.Replace(own.URL, "127.0.0.1", host, 1)}
		g, err := gateway.New(gatewaytest.Load(t, gatewaytest.Team("eng", "", "", p)), gateway.Options{})
		if err != nil {
			t.Fatal(err)
		}
		g.Own(bound)
		gatewaytest.Run(t, g)
		upstreamtest.Eventually(t, host+" is unreachable", func() bool { return g.Ready().Upstreams[0].Reason == "unreachable" })
	}
}
