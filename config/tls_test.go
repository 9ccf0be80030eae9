package config

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ledger returns the tls block of the fixture, which sets every attribute.
func ledger(t *testing.T) *TLS {
	t.Helper()
	return load(t, filepath.Join("testdata", "valid", "everything.hcl")).Upstreams()[2].TLS
}

func TestClientConfig_HasAllOfTheBlockAndElseDefaults(t *testing.T) {
	c := clientConfig(t, ledger(t))
	if c.ServerName != "ledger.internal" || c.RootCAs == nil || len(c.Certificates) != 1 || c.Certificates[0].PrivateKey == nil || c.InsecureSkipVerify {
		t.Errorf("ClientConfig() = %+v", c)
	}
	empty := &TLS{}
	clientConfig(t, empty).NextProtos = []string{"h2"} // of a value of its own
	for _, block := range []*TLS{nil, empty} {
		if c := clientConfig(t, block); c.ServerName != "" || c.RootCAs != nil || c.Certificates != nil || c.InsecureSkipVerify || c.NextProtos != nil {
			t.Errorf("ClientConfig of %v = %+v", block, c)
		}
	}
}

func TestClientConfig_RefusesUncheckedPEM(t *testing.T) {
	for _, block := range []TLS{
		{CAs: NewSecret("hunter2")},
		{Certificate: NewSecret("hunter2"), Key: NewSecret("hunter2")},
	} {
		if c, err := block.ClientConfig(); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("ClientConfig() = %v, %v; want an error that shows nothing", c, err)
		}
	}
}

func clientConfig(t *testing.T, block *TLS) *tls.Config {
	t.Helper()
	c, err := block.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// FuzzPEM checks a promise: ClientConfig accepts whatever Load accepted.
func FuzzPEM(f *testing.F) {
	for _, pair := range [][2]string{{"client.crt", "client.key"}, {"client.crt", "other.key"}, {"cut.crt", "encrypted.key"}, {"half-good.crt", "garbage.key"}} {
		certificate, err := os.ReadFile(filepath.Join("testdata", "invalid", "pem", pair[0]))
		if err != nil {
			f.Fatal(err)
		}
		key, err := os.ReadFile(filepath.Join("testdata", "invalid", "pem", pair[1]))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(certificate), string(key))
	}
	f.Fuzz(func(t *testing.T, certificate, key string) {
		dir := write(t, "client.crt", certificate, "client.key", key, "x.hcl", `team "a" {
  upstream "u" {
    url = "https://u"
    tls {
      ca_file   = "client.crt"
      cert_file = "client.crt"
      key_file  = "client.key"
    }
  }
}`)
		if cfg, _ := Load(dir, options()); cfg != nil {
			if _, err := cfg.Upstreams()[0].TLS.ClientConfig(); err != nil {
				t.Errorf("Load takes %q, ClientConfig: %v", certificate, err)
			}
		}
	})
}
