package client_test

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// No machine has an address of RFC 5737: a connection to such an address went through the proxy.
func TestEgress_GuardHoldsForWhatTheProxyReaches(t *testing.T) {
	proxy := upstreamtest.NewProxy(t)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("NO_PROXY", "direct.example.com")
	upstreamtest.Resolve(t, map[string]string{
		"docs.example.com": "192.0.2.10", "metadata.example.com": "169.254.169.254", "local.example.com": "127.0.0.1",
		"own.example.com": "192.0.2.20", "direct.example.com": "127.0.0.1", "xn--bcher-kva.example.com": "192.0.2.30",
	})
	authority := upstreamtest.NewAuthority(t, "servers")
	secure := authority.Serve("docs.example.com", upstreamtest.NewPeer(t), func(s *httptest.Server) { s.TLS.ClientAuth = tls.NoClientCert })
	inside := authority.Serve("inside.example.com", upstreamtest.NewPeer(t), func(s *httptest.Server) { s.TLS.ClientAuth = tls.NoClientCert })
	plain := upstreamtest.Serve(t, upstreamtest.NewPeer(t))
	for _, address := range []string{"docs.example.com:443", "192.0.2.10:443"} {
		proxy.Route(address, strings.TrimPrefix(secure, "https://"))
	}
	proxy.Route("inside.example.com:443", strings.TrimPrefix(inside, "https://"))
	foreign := authority.Serve("xn--bcher-kva.example.com", upstreamtest.NewPeer(t), func(s *httptest.Server) { s.TLS.ClientAuth = tls.NoClientCert })
	proxy.Route("xn--bcher-kva.example.com:443", strings.TrimPrefix(foreign, "https://"))
	for _, address := range []string{"docs.example.com:80", "inside.example.com:80", "xn--bcher-kva.example.com:80"} {
		proxy.Route(address, strings.TrimPrefix(plain.URL, "http://"))
	}
	refused := errors.New("is not for upstreams")
	guard := func(address string) error {
		if strings.HasPrefix(address, "169.254.") || strings.HasPrefix(address, "192.0.2.20:") || strings.HasSuffix(proxy.URL, "@"+address) {
			return refused
		}
		return nil
	}
	const byName, byPattern, anyHost = config.HostByName, config.HostByPattern, config.AnyHost
	for _, test := range []struct {
		url   string
		grant config.HostGrant
		asked string // "" for not at all
		kind  client.Kind
	}{
		{"https://docs.example.com/mcp", byName, "CONNECT docs.example.com:443", client.Kind{}},
		{"https://docs.example.com/mcp", byPattern, "CONNECT 192.0.2.10:443", client.Kind{}},
		{"https://docs.example.com/mcp", anyHost, "CONNECT 192.0.2.10:443", client.Kind{}},
		{"http://docs.example.com/mcp", byName, "plain docs.example.com:80", client.Kind{}},
		{"http://docs.example.com/mcp", anyHost, "plain docs.example.com:80", client.Kind{}},
		// A name with letters beyond ASCII, which is sent in its other form.
		{"https://bücher.example.com/mcp", byName, "CONNECT xn--bcher-kva.example.com:443", client.Kind{}},
		{"http://bücher.example.com/mcp", byName, "plain xn--bcher-kva.example.com:80", client.Kind{}},
		// A name that only the proxy resolves.
		{"https://inside.example.com/mcp", byName, "CONNECT inside.example.com:443", client.Kind{}},
		{"https://inside.example.com/mcp", anyHost, "CONNECT inside.example.com:443", client.Kind{}},
		{"http://inside.example.com/mcp", byName, "plain inside.example.com:80", client.Kind{}},
		{"https://inside.example.com/mcp", byPattern, "", client.UnknownHost},
		{"http://inside.example.com/mcp", byPattern, "", client.UnknownHost},
		// This machine and the exceptions are reached directly: nothing listens there.
		{"http://local.example.com:1/mcp", anyHost, "", client.ConnectionRefused},
		{"https://local.example.com:1/mcp", byName, "", client.ConnectionRefused},
		{"https://127.0.0.1:1/mcp", anyHost, "", client.ConnectionRefused},
		{"http://localhost:1/mcp", anyHost, "", client.ConnectionRefused},
		{"http://localhost.:1/mcp", byName, "", client.UnknownHost}, // to the proxy, this would be itself
		{"https://direct.example.com:1/mcp", anyHost, "", client.ConnectionRefused},
		// The guard.
		{"https://metadata.example.com/mcp", byName, "", client.AddressNotAllowed},
		{"https://metadata.example.com/mcp", byPattern, "", client.AddressNotAllowed},
		{"http://metadata.example.com/mcp", byName, "", client.AddressNotAllowed},
		{"http://metadata.example.com/mcp", byPattern, "", client.AddressNotAllowed},
		{"http://metadata.example.com/mcp", anyHost, "", client.AddressNotAllowed},
		{"https://169.254.169.254/mcp", anyHost, "", client.AddressNotAllowed},
		{"http://169.254.169.254/mcp", byName, "", client.AddressNotAllowed},
		{"https://own.example.com/mcp", byName, "", client.AddressNotAllowed},
		{"http://own.example.com/mcp", anyHost, "", client.AddressNotAllowed},
	} {
		u := upstreamtest.HTTP("u", test.url)
		u.HostGrant, u.TLS, u.TransportExplicit = test.grant, &config.TLS{CAs: config.NewSecret(authority.PEM)}, true
		session, err := client.Connect(t.Context(), u, client.Options{DialGuard: guard})
		if err == nil {
			session.Close()
		}
		var want []string
		if test.asked != "" {
			want = []string{test.asked}
		}
		if got := proxy.Asked(); !slices.Equal(got, want) {
			t.Errorf("%s, grant %d: the proxy was asked for %q, want %q", test.url, test.grant, got, want)
		}
		if (err == nil) != (test.kind == client.Kind{}) || err != nil && client.CauseOf(err).Kind != test.kind {
			t.Errorf("%s, grant %d: %v, want the cause %q", test.url, test.grant, err, test.kind)
		}
	}
}

// A cause names the proxy, and not its password.
func TestEgress_CauseNamesTheProxyThatFailed(t *testing.T) {
	upstreamtest.Resolve(t, map[string]string{"docs.example.com": "192.0.2.10"})
	failing := upstreamtest.NewProxy(t)
	failing.Answer(http.StatusForbidden)
	_, address, _ := strings.Cut(failing.URL, "@")
	unknown := httptest.NewUnstartedServer(failing)
	unknown.Config.ErrorLog = log.New(io.Discard, "", 0)
	unknown.StartTLS()
	defer unknown.Close()
	for proxy, want := range map[string]string{
		failing.URL:                                  "egress proxy " + address + ": HTTP 403 Forbidden",
		"http://weir:hunter2@127.0.0.1:1":            "egress proxy 127.0.0.1:1: ",
		"http://weir:hunter2@nowhere.example.com:80": "egress proxy nowhere.example.com:80: resolve host name",
		unknown.URL:                                  "egress proxy " + unknown.Listener.Addr().String() + ": tls: failed to verify certificate",
		"socks5://weir:hunter2@127.0.0.1:1":          "is not the URL of an http or https proxy",
		strings.Replace(failing.URL, "weir", "x", 1): "egress proxy " + address + ": HTTP 407",
	} {
		t.Setenv("HTTPS_PROXY", proxy)
		t.Setenv("HTTP_PROXY", proxy)
		schemes := []string{"https", "http"}
		if strings.Contains(want, "HTTP 4") { // over plain HTTP, the proxy answers as the server would
			schemes = schemes[:1]
		}
		behindToken := upstreamtest.HTTP("u", "http://127.0.0.1:1/mcp")
		behindToken.OAuth = &config.OAuth{TokenURL: "https://docs.example.com/token", ClientID: "promptweir"}
		upstreams := []config.Upstream{behindToken}
		for _, scheme := range schemes {
			upstreams = append(upstreams, upstreamtest.HTTP("u", scheme+"://docs.example.com/mcp"))
		}
		for _, u := range upstreams {
			_, err := client.Connect(t.Context(), u, client.Options{})
			if got := client.CauseOf(err); got.Kind != client.ProxyFailed || !strings.Contains(got.Problem, want) || strings.Contains(got.String()+err.Error(), "hunter2") {
				t.Errorf("%s through %s: %s, cause %+v; want %q", u.URL, proxy, err, got, want)
			}
		}
	}
	t.Setenv("HTTP_PROXY", strings.Replace(failing.URL, "weir", "x", 1))
	_, err := client.Connect(t.Context(), upstreamtest.HTTP("u", "http://docs.example.com/mcp"), client.Options{})
	if got := client.CauseOf(err); got.Kind != client.ProxyFailed || !strings.Contains(got.Problem, "HTTP 407") {
		t.Errorf("http through a proxy that wants a password: %s, cause %+v", err, got)
	}
}
