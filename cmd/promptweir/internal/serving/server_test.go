package serving

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// certificateOf returns a certificate for a name, and its key.
func certificateOf(t *testing.T, name string) (certificate, key string) {
	t.Helper()
	return upstreamtest.PEM(t, upstreamtest.NewAuthority(t, "test").Server(name))
}

func TestServerCertificate_FollowsItsFiles(t *testing.T) {
	dir := t.TempDir()
	cfg := &config.ServerTLS{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	replace := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	first, firstKey := certificateOf(t, "first")
	replace(cfg.CertFile, first)
	replace(cfg.KeyFile, firstKey)
	certificate := &serverCertificate{cfg: cfg, logger: slog.New(slog.DiscardHandler), pair: &tls.Certificate{}}
	isOf := func(want string) {
		t.Helper()
		certificate.checked = time.Time{} // the next handshake checks the files
		got, err := certificate.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(got.Certificate[0])
		if err != nil || leaf.Subject.CommonName != want {
			t.Errorf("the certificate is that of %v (%v), want %s", leaf.Subject, err, want)
		}
	}
	isOf("first")
	next, nextKey := certificateOf(t, "next")
	replace(cfg.CertFile, next)
	isOf("first") // the key does not fit yet
	replace(cfg.KeyFile, nextKey)
	isOf("next")
	replace(cfg.CertFile, "broken")
	isOf("next")
	if err := os.Remove(cfg.KeyFile); err != nil {
		t.Fatal(err)
	}
	isOf("next")
}
