package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/identity/identitytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// Servers over http and https, token endpoints and issuers' keys are reached through the proxy of the environment. No machine
// has an address of RFC 5737.
func TestServe_LeavesTheNetworkThroughTheProxy(t *testing.T) {
	t.Parallel()
	proxy, authority, idp := upstreamtest.NewProxy(t), newAuthority(t), identitytest.New(t, "https://192.0.2.30")
	secured := func(host string, handler http.Handler) (address string) {
		url := authority.Serve(host, handler, func(s *httptest.Server) { s.TLS.ClientAuth = tls.NoClientCert })
		address = strings.TrimPrefix(url, "https://")
		proxy.Route(host+":443", address)
		return address
	}
	secret := upstreamtest.NewPeer(t)
	secured("192.0.2.10", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer of-the-endpoint" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		secret.ServeHTTP(w, r)
	}))
	secured("192.0.2.20", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"of-the-endpoint","token_type":"Bearer","expires_in":600}`) // the gateway has gone
	}))
	secured("192.0.2.30", idp)
	proxy.Route("192.0.2.11:80", strings.TrimPrefix(upstreamtest.Serve(t, upstreamtest.NewPeer(t)).URL, "http://"))
	folder := configure(t, map[string]string{
		"auth.hcl": fmt.Sprintf("auth {\n  jwt \"idp\" {\n    issuer   = %q\n    audience = %q\n  }\n}\n", idp.Issuer, identitytest.Audience),
		"ca.crt":   authority.PEM,
		"team.hcl": `
team "outside" {
  members = ["user:ann"]
  upstream "plain" { url = "http://192.0.2.11/mcp" }
  upstream "secure" {
    url = "https://192.0.2.10/mcp"
    oauth {
      token_url     = "https://192.0.2.20/token"
      client_id     = "promptweir"
      client_secret = "secret"
    }
  }
}
`,
	})
	overTLS, token := secured("127.0.0.1", proxy), idp.Token("ann") // the same proxy
	proxy.Answer(http.StatusForbidden)
	p := serve(t, folder, "HTTP_PROXY="+proxy.URL, "HTTPS_PROXY=https://weir:hunter2@"+overTLS, "SSL_CERT_FILE="+filepath.Join(folder, "ca.crt"))
	eventually(t, "the log names the proxy that refuses to connect to the issuer", func() bool {
		_, _, _, _ = p.sees(t, http.DefaultClient, token)
		return strings.Contains(p.logged(), "through the egress proxy "+overTLS)
	})
	proxy.Answer(0)
	eventually(t, "both servers are listed", func() bool {
		_, names, _, err := p.sees(t, http.DefaultClient, token)
		return err == nil && names == "plain.p secure.p"
	})
	want := []string{"CONNECT 192.0.2.10:443", "CONNECT 192.0.2.20:443", "CONNECT 192.0.2.30:443", "plain 192.0.2.11:80"}
	upstreamtest.Equal(t, want, proxy.Asked(), "requests to the proxy")
	if strings.Contains(p.logged(), "hunter2") {
		t.Error("the log has the proxy's password")
	}
}
