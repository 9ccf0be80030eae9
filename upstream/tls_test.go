package upstream_test

import (
	"crypto/tls"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// serveTLS serves a peer over TLS, as mcp.example, to clients with a certificate of the authority.
func serveTLS(t *testing.T, a *upstreamtest.Authority, newest uint16) (url string) {
	t.Helper()
	return a.Serve("mcp.example", upstreamtest.NewPeer(t), func(server *httptest.Server) {
		server.TLS.MaxVersion, server.EnableHTTP2 = newest, true // the gateway must not ask for HTTP/2
	})
}

// trusting returns the tls block of an upstream with a certificate of an authority, and one of the client's by
// another, unless that is nil.
func trusting(t *testing.T, a, clients *upstreamtest.Authority, name string) *config.TLS {
	t.Helper()
	block := &config.TLS{CAs: config.NewSecret(a.PEM), ServerName: name}
	if clients != nil {
		certificate, key := upstreamtest.PEM(t, clients.Client("gateway"))
		block.Certificate, block.Key = config.NewSecret(certificate), config.NewSecret(key)
	}
	return block
}

func TestTLS_VerifiesBothSides(t *testing.T) {
	t.Parallel()
	ours, theirs := upstreamtest.NewAuthority(t, "test"), upstreamtest.NewAuthority(t, "test")
	url := serveTLS(t, ours, tls.VersionTLS13)
	tls12 := serveTLS(t, ours, tls.VersionTLS12)
	for name, test := range map[string]struct {
		url   string
		block *config.TLS
		want  string // part of the error
	}{
		"both know each other":                {url, trusting(t, ours, ours, "mcp.example"), ""},
		"no block":                            {url, nil, "certificate"},
		"another authority":                   {url, trusting(t, theirs, ours, "mcp.example"), "unknown authority"},
		"no certificate to show":              {tls12, trusting(t, ours, nil, "mcp.example"), "remote error: tls: handshake failure"},
		"one of another authority":            {tls12, trusting(t, ours, theirs, "mcp.example"), "remote error: tls: unknown certificate authority"},
		"no certificate to show to TLS 1.3":   {url, trusting(t, ours, nil, "mcp.example"), "remote error: tls: certificate required"},
		"one of another authority to TLS 1.3": {url, trusting(t, ours, theirs, "mcp.example"), "remote error: tls: unknown certificate authority"},
		"the name is that of the host":        {url, trusting(t, ours, ours, ""), "127.0.0.1"},
		"another name":                        {url, trusting(t, ours, ours, "other.example"), "other.example"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := upstreamtest.HTTP("secured", test.url)
			u.TLS = test.block
			session, err := client.Connect(t.Context(), u, upstream.Options{})
			if err == nil {
				defer session.Close()
			}
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error()+client.CauseOf(err).Problem, test.want)) {
				t.Errorf("Connect() = %v, want %q", err, test.want)
			}
		})
	}
}

// In TLS 1.3 the handshake is over for the client before the server has looked at the client's
// certificate, so that the first request goes to a server that refuses the connection. Whatever
// comes first, the refusal is what operators are told.
func TestTLS_RefusedCertificateIsToldFromABrokenConnection(t *testing.T) {
	t.Parallel()
	const attempts = 10 // in some of which the request is written after the refusal
	ours, theirs := upstreamtest.NewAuthority(t, "test"), upstreamtest.NewAuthority(t, "test")
	others := upstreamtest.NewAuthority(t, "others")
	for version, newest := range map[string]uint16{"TLS 1.2": tls.VersionTLS12, "TLS 1.3": tls.VersionTLS13} {
		for name, clientAuthority := range map[string]*upstreamtest.Authority{"none": nil, "of an issuer that the server names": theirs, "of another issuer": others} {
			t.Run(version+", "+name, func(t *testing.T) {
				t.Parallel()
				u := upstreamtest.HTTP("secured", serveTLS(t, ours, newest))
				u.TLS = trusting(t, ours, clientAuthority, "mcp.example")
				want := client.CertificateMissing
				if clientAuthority != nil {
					want = client.CertificateRefused
				}
				for range attempts {
					_, err := client.Connect(t.Context(), u, upstream.Options{})
					if got := client.CauseOf(err).Kind; got != want {
						t.Fatalf("Connect() = %v, explained as %s, want %s", err, got, want)
					}
				}
			})
		}
	}
}
