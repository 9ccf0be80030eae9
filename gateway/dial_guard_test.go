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
		upstreamtest.Eventually(t, host+" is unreachable", func() bool {
			u := g.Ready().Upstreams[0]
			return u.Problem != nil && u.Reason == "unreachable"
		})
	}
}

// What the guard refuses is not asked of an egress proxy either. Names that resolve to this machine are dialed from here.
func TestDialGuard_HoldsThroughAnEgressProxy(t *testing.T) {
	proxy := upstreamtest.NewProxy(t)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("NO_PROXY", "")
	upstreamtest.Resolve(t, map[string]string{
		"metadata.example.com": "169.254.169.254", "loopback.example.com": "127.0.0.1", "own.example.com": "192.0.2.20",
	})
	own := httptest.NewServer(http.NotFoundHandler())
	defer own.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(own.URL, "http://"), ":")
	for _, url := range []string{
		"https://metadata.example.com/mcp", "http://metadata.example.com/mcp", "https://own.example.com/mcp", "http://own.example.com:443/mcp",
		"http://loopback.example.com:" + port + "/mcp", "https://loopback.example.com:" + port + "/mcp",
	} {
		g, err := gateway.New(gatewaytest.Load(t, gatewaytest.Team("eng", "", "", &gatewaytest.Peer{Name: "self", URL: url})), gateway.Options{})
		if err != nil {
			t.Fatal(err)
		}
		g.Own(netip.MustParseAddrPort(own.Listener.Addr().String()))
		g.Own(netip.MustParseAddrPort("192.0.2.20:443"))
		stop := gatewaytest.Run(t, g)
		upstreamtest.Eventually(t, url+" is refused", func() bool {
			cause := g.Ready().Upstreams[0].Cause
			return strings.Contains(cause, "own listener") || strings.Contains(cause, "no upstream may be there")
		})
		stop()
	}
	if asked := proxy.Asked(); len(asked) > 0 {
		t.Errorf("the proxy was asked for %q", asked)
	}
}
