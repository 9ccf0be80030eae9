package upstream_test

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// In TLS 1.3 the handshake is over for the client before the server has looked at the client's
// certificate, so that the first request goes to a server that refuses the connection. Whatever
// comes first, the refusal is what operators are told.
func TestTLS_RefusedCertificateIsToldFromABrokenConnection(t *testing.T) {
	t.Parallel()
	const attempts = 25 // in some of which the request is written after the refusal
	ours, theirs, others := newAuthority(t), newAuthority(t), newAuthorityNamed(t, "others")
	for version, newest := range map[string]uint16{"TLS 1.2": tls.VersionTLS12, "TLS 1.3": tls.VersionTLS13} {
		for _, http2 := range []bool{false, true} {
			for name, clientAuthority := range map[string]*authority{"none": nil, "of an issuer that the server names": theirs, "of another issuer": others} {
				protocol := map[bool]string{false: "HTTP/1.1", true: "HTTP/2"}[http2]
				t.Run(version+", "+protocol+", "+name, func(t *testing.T) {
					t.Parallel()
					u := upstreamtest.HTTP("secured", ours.serveTLSWith(newest, http2))
					u.TLS = &config.TLS{CAs: config.NewSecret(ours.pem), ServerName: "mcp.example"}
					want := client.CertificateMissing
					if clientAuthority != nil {
						want = client.CertificateRefused
						certificate, key := clientAuthority.pair(x509.ExtKeyUsageClientAuth, "gateway")
						u.TLS.Certificate, u.TLS.Key = config.NewSecret(certificate), config.NewSecret(key)
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
}
