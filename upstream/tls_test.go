package upstream_test

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// authority is a private certificate authority.
type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         string
}

func newAuthority(t *testing.T) *authority { return newAuthorityNamed(t, "test") }

// newAuthorityNamed returns an authority with a name, which its clients' certificates name as their
// issuer.
func newAuthorityNamed(t *testing.T, name string) *authority {
	a := &authority{t: t}
	a.certificate = &x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: name},
	}
	a.pem, a.key = a.sign(a.certificate)
	return a
}

// sign completes a certificate and signs it: with its own key if the authority has none yet.
func (a *authority) sign(c *x509.Certificate) (certificate string, key *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.Subject.CommonName = cmp.Or(c.Subject.CommonName, "test")
	if c.NotAfter.IsZero() {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	signer := key
	if a.key != nil {
		signer = a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.certificate, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), key
}

// pair issues a certificate for a use and a name, with its key.
func (a *authority) pair(use x509.ExtKeyUsage, name string) (certificate, key string) {
	a.t.Helper()
	return a.pairOf(&x509.Certificate{
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{use}, DNSNames: []string{name},
	})
}

func (a *authority) pairOf(c *x509.Certificate) (certificate, key string) {
	a.t.Helper()
	certificate, private := a.sign(c)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return certificate, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// serveTLS serves a peer over TLS, as mcp.example, to clients with a certificate of the authority.
func (a *authority) serveTLS(newest uint16) (url string) {
	a.t.Helper()
	return a.serveTLSWith(newest, false)
}

func (a *authority) serveTLSWith(newest uint16, http2 bool) (url string) {
	a.t.Helper()
	pair, err := tls.X509KeyPair(pemPair(a.pair(x509.ExtKeyUsageServerAuth, "mcp.example")))
	if err != nil {
		a.t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(a.root())
	server := httptest.NewUnstartedServer(upstreamtest.NewPeer(a.t))
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS10, MaxVersion: newest,
	}
	server.EnableHTTP2 = http2
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // some handshakes are to fail
	server.StartTLS()
	a.t.Cleanup(server.Close)
	return server.URL
}

func pemPair(certificate, key string) (certificatePEM, keyPEM []byte) {
	return []byte(certificate), []byte(key)
}

func (a *authority) root() *x509.Certificate {
	block, _ := pem.Decode([]byte(a.pem))
	root, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		a.t.Fatal(err)
	}
	return root
}

func TestTLS_VerifiesBothSides(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	url := ours.serveTLS(tls.VersionTLS13)
	tls12 := ours.serveTLS(tls.VersionTLS12)
	old := ours.serveTLS(tls.VersionTLS11)
	block := func(ca, client *authority, name string) *config.TLS {
		b := &config.TLS{CAs: config.NewSecret(ca.pem), ServerName: name}
		if client != nil {
			certificate, key := client.pair(x509.ExtKeyUsageClientAuth, "gateway")
			b.Certificate, b.Key = config.NewSecret(certificate), config.NewSecret(key)
		}
		return b
	}
	for name, test := range map[string]struct {
		url   string
		block *config.TLS
		want  string // part of the error
	}{
		"both know each other":                {url, block(ours, ours, "mcp.example"), ""},
		"no block":                            {url, nil, "certificate"},
		"another authority":                   {url, block(theirs, ours, "mcp.example"), "unknown authority"},
		"no certificate to show":              {tls12, block(ours, nil, "mcp.example"), "remote error: tls: handshake failure"},
		"one of another authority":            {tls12, block(ours, theirs, "mcp.example"), "remote error: tls: unknown certificate authority"},
		"no certificate to show to TLS 1.3":   {url, block(ours, nil, "mcp.example"), "remote error: tls: certificate required"},
		"one of another authority to TLS 1.3": {url, block(ours, theirs, "mcp.example"), "remote error: tls: unknown certificate authority"},
		"the name is that of the host":        {url, block(ours, ours, ""), "127.0.0.1"},
		"another name":                        {url, block(ours, ours, "other.example"), "other.example"},
		"an old version":                      {old, block(ours, ours, "mcp.example"), "protocol version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := upstreamtest.HTTP("secured", test.url)
			u.TLS = test.block
			session, err := client.Connect(t.Context(), u, upstream.Options{})
			if err == nil {
				defer session.Close()
			}
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("Connect() = %v, want %q", err, test.want)
			}
		})
	}
	t.Run("replicas", func(t *testing.T) {
		t.Parallel()
		u := upstreamtest.HTTP("secured", url, ours.serveTLS(tls.VersionTLS12))
		u.TLS = block(ours, ours, "mcp.example")
		c := start(t, u, upstream.Options{})
		waitForBoth(t, c)
		mustGet(t, c, "p")
		mustGet(t, c, "p")
	})
}

// A TLS server that offers HTTP/2 gets HTTP/2, any other HTTP/1.1.
func TestTLS_NegotiatesHTTPVersion(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t)
	pair, err := tls.X509KeyPair(pemPair(ours.pair(x509.ExtKeyUsageServerAuth, "mcp.example")))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		http2 bool
		want  string
	}{{true, "HTTP/2.0"}, {false, "HTTP/1.1"}} {
		t.Run(test.want, func(t *testing.T) {
			t.Parallel()
			peer := upstreamtest.NewPeer(t)
			var spoken sync.Map // the versions of the requests
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				spoken.Store(r.Proto, true)
				peer.ServeHTTP(w, r)
			}))
			server.TLS, server.EnableHTTP2 = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, test.http2
			server.StartTLS()
			t.Cleanup(server.Close)
			u := upstreamtest.HTTP("secured", server.URL)
			u.TLS = &config.TLS{CAs: config.NewSecret(ours.pem), ServerName: "mcp.example"}
			c := start(t, u, upstream.Options{})
			upstreamtest.Eventually(t, "connected", func() bool { return c.State().Connected })
			mustGet(t, c, "p")
			spoken.Range(func(version, _ any) bool {
				if version != test.want {
					t.Errorf("a request came in %s, want %s", version, test.want)
				}
				return true
			})
			if _, ok := spoken.Load(test.want); !ok {
				t.Errorf("no request came in %s", test.want)
			}
		})
	}
}

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
