package identity_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
)

func TestFromCertificate_UsesTheMostSpecificName(t *testing.T) {
	until := time.Now().Add(time.Hour)
	spiffe := &url.URL{Scheme: "spiffe", Host: "example.com", Path: "/ci"}
	named := func(name string) pkix.Name { return pkix.Name{CommonName: name} }
	tests := []struct {
		name string
		leaf x509.Certificate
		as   string
		want string
	}{
		{"a URI first", x509.Certificate{URIs: []*url.URL{spiffe}, EmailAddresses: []string{"ci@example.com"}, Subject: named("ci")}, "", "user:spiffe://example.com/ci"},
		{"then an e-mail address", x509.Certificate{EmailAddresses: []string{"ci@example.com"}, Subject: named("ci")}, "", "user:ci@example.com"},
		{"then the common name", x509.Certificate{Subject: named("ci")}, "", "user:ci"},
		{"with as", x509.Certificate{Subject: named("ci")}, "machine", "user:machine/ci"},
		{"nobody", x509.Certificate{}, "", ""},
		{"a name in two", x509.Certificate{Subject: named("Alice Example")}, "", ""},
		{"anonymous", x509.Certificate{Subject: named("anonymous")}, "", ""},
	}
	for _, test := range tests {
		a := identity.New(&config.Config{Auth: &config.Auth{ClientCertificates: &config.ClientCertificates{As: test.as}}}, slog.New(slog.DiscardHandler))
		test.leaf.NotAfter = until
		got, err := a.FromCertificate(&test.leaf)
		if test.want == "" {
			if !errors.Is(err, identity.ErrBadCredential) {
				t.Errorf("%s: %+v, %v, want a bad credential", test.name, got, err)
			}
			continue
		}
		want := policy.Principal{Subject: test.want, Source: "certificate", Expires: until}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, diff)
		}
		test.leaf.NotAfter = time.Now().Add(-time.Second) // on a connection that goes on
		if got, err := a.FromCertificate(&test.leaf); !errors.Is(err, identity.ErrBadCredential) {
			t.Errorf("%s: after its end: %+v, %v", test.name, got, err)
		}
	}
}
