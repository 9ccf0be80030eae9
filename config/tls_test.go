package config

import (
	"path/filepath"
	"testing"
)

// ledger returns the tls block of the fixture, which sets every attribute.
func ledger(t *testing.T) *TLS {
	t.Helper()
	return load(t, filepath.Join("testdata", "valid", "everything.hcl")).Upstreams()[2].TLS
}

func TestClientConfig_HasAllOfTheBlockAndElseDefaults(t *testing.T) {
	c := ledger(t).ClientConfig()
	if c.ServerName != "ledger.internal" || c.RootCAs == nil || len(c.Certificates) != 1 || c.Certificates[0].PrivateKey == nil || c.InsecureSkipVerify {
		t.Errorf("ClientConfig() = %+v", c)
	}
	empty := &TLS{}
	empty.ClientConfig().NextProtos = []string{"h2"} // must not change the settings that the next call returns
	for _, block := range []*TLS{nil, empty} {
		if c := block.ClientConfig(); c.ServerName != "" || c.RootCAs != nil || c.Certificates != nil || c.InsecureSkipVerify || c.NextProtos != nil {
			t.Errorf("ClientConfig of %v = %+v", block, c)
		}
	}
}
