package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// authority issues certificates.
type authority struct {
	*upstreamtest.Authority

	t *testing.T
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	return &authority{upstreamtest.NewAuthority(t, "test authority"), t}
}

// server returns a certificate for this machine, and its key.
func (a *authority) server() (certificate, key string) {
	return upstreamtest.PEM(a.t, a.Server("127.0.0.1"))
}

// client returns an HTTP client that trusts the authority. If template is not nil, it has a
// certificate issued by another one.
func (a *authority) client(template *x509.Certificate, by *authority) *http.Client {
	settings := &tls.Config{RootCAs: a.Pool()}
	if template != nil {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		settings.Certificates = []tls.Certificate{by.Issue(template)}
	}
	transport := &http.Transport{TLSClientConfig: settings, ForceAttemptHTTP2: true}
	a.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: timeout}
}

func named(name string) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}}
}

// withTLS writes a configuration whose gateway has a certificate, and the lines of tlsMore in its
// tls block.
func (a *authority) withTLS(tlsMore string, files map[string]string) string {
	a.t.Helper()
	certificate, key := a.server()
	folder := configure(a.t, files)
	for name, text := range map[string]string{
		"tls.crt": certificate, "tls.key": key, "ca.crt": a.PEM,
		"listen.hcl": strings.Replace(anyPort, "gateway {",
			"gateway {\n  tls {\n    cert_file = \"tls.crt\"\n    key_file = \"tls.key\"\n    "+tlsMore+"\n  }", 1),
	} {
		writeFile(a.t, folder, name, text)
	}
	return folder
}

// sees lists the prompts, and returns their names with the version of HTTP.
func (p *gatewayProcess) sees(t *testing.T, c *http.Client, token string) (status int, names, proto string, err error) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"prompts/list","params":{` + modernMeta + `}}`
	response, err := c.Do(modernRequest(t.Context(), p.endpoint, "prompts/list", body, token))
	if err != nil {
		return 0, "", "", err
	}
	defer response.Body.Close()
	var list rpcResponse
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, list.names(), response.Proto, nil
}

// greeters returns a team with a greeter that shows hello only.
func greeters(t *testing.T, name, members string) string {
	return fmt.Sprintf("team %q {\n members = [%s]\n upstream %q { command = [%q] }\n hide \"most\" { prompts = [\"*.slow\", \"*.pid\", \"*.wip_bye\"] }\n}", name, members, name, program(t, "greeter"))
}

func TestServe_AuthenticatesClientCertificates(t *testing.T) {
	a, stranger := newAuthority(t), newAuthority(t)
	spiffe := &url.URL{Scheme: "spiffe", Host: "example.com", Path: "/ci"}
	p := serve(t, a.withTLS(`client_ca_file = "ca.crt"`, map[string]string{
		"one.hcl": greeters(t, "one", `"user:ann"`), "two.hcl": greeters(t, "two", `"user:spiffe://example.com/ci"`),
	}))
	if !strings.HasPrefix(p.endpoint, "https://") {
		t.Errorf("endpoint = %s, want https", p.endpoint)
	}
	_, page := p.page(t, "/metrics")
	expiry := regexp.MustCompile(`(?m)^promptweir_certificate_expiry_timestamp_seconds (\S+)$`).FindStringSubmatch(page)
	if expiry == nil {
		t.Fatal("no metric has the certificate's expiry")
	}
	seconds, err := strconv.ParseFloat(expiry[1], 64)
	if in := time.Until(time.Unix(int64(seconds), 0)); err != nil || in > time.Hour || in < 50*time.Minute {
		t.Errorf("the certificate of an hour expires in %v, %v", in, err)
	}
	for _, test := range []struct {
		name   string
		client *http.Client
		want   string
	}{
		{"ann", a.client(named("ann"), a), "one.hello"},
		{"a URI", a.client(&x509.Certificate{Subject: pkix.Name{CommonName: "ann"}, URIs: []*url.URL{spiffe}}, a), "two.hello"},
		{"bob", a.client(named("bob"), a), ""},
	} {
		status, names, proto, err := p.sees(t, test.client, "")
		if err != nil || status != http.StatusOK || names != test.want || proto != "HTTP/2.0" {
			t.Errorf("%s: %d, %q by %s, %v; want %q by HTTP/2.0", test.name, status, names, proto, err, test.want)
		}
	}
	if status, _, _, err := p.sees(t, a.client(named("two words"), a), ""); err != nil || status != http.StatusUnauthorized {
		t.Errorf("a certificate without a usable subject: %d, %v, want 401", status, err)
	}
	old := a.client(named("ann"), a)
	old.Transport.(*http.Transport).TLSClientConfig.MaxVersion = tls.VersionTLS11
	for name, c := range map[string]*http.Client{
		"no certificate": a.client(nil, nil), "another authority's": a.client(named("ann"), stranger), "TLS 1.1": old,
		"a client that trusts another authority": stranger.client(named("ann"), a),
	} {
		if status, names, _, err := p.sees(t, c, ""); err == nil {
			t.Errorf("%s: status %d, %q, want no connection", name, status, names)
		}
	}
}

func TestServe_AcceptsCertificatesBesideTokens(t *testing.T) {
	a := newAuthority(t)
	p := serve(t, a.withTLS("client_ca_file = \"ca.crt\"\n as = \"machine\"", map[string]string{
		"auth.hcl": "auth {\n token \"ann\" {\n sha256 = sha256(\"red\")\n as = \"token\"\n }\n}",
		"one.hcl":  greeters(t, "one", `"user:machine/ann"`), "two.hcl": greeters(t, "two", `"user:token/ann"`),
	}))
	ann, nobody := a.client(named("ann"), a), a.client(nil, nil)
	for _, test := range []struct {
		name, token string
		client      *http.Client
		status      int
		want        string
	}{
		{"a certificate", "", ann, http.StatusOK, "one.hello"},
		{"a token", "red", nobody, http.StatusOK, "two.hello"},
		{"both", "red", ann, http.StatusOK, "two.hello"},
		{"a certificate and a bad token", "green", ann, http.StatusUnauthorized, ""},
		{"neither", "", nobody, http.StatusUnauthorized, ""},
	} {
		if status, names, _, err := p.sees(t, test.client, test.token); err != nil || status != test.status || names != test.want {
			t.Errorf("%s: %d, %q, %v; want %d, %q", test.name, status, names, err, test.status, test.want)
		}
	}
}

func TestServe_StreamsOverTLS(t *testing.T) {
	a := newAuthority(t)
	p := serve(t, a.withTLS("", map[string]string{}))
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		c := a.client(nil, nil)
		if proto == "HTTP/1.1" {
			transport, _ := c.Transport.(*http.Transport)
			transport.ForceAttemptHTTP2 = false
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(p.endpoint, "/mcp")+"/sse", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/event-stream")
		response, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if event := nextEvent(bufio.NewScanner(response.Body)); !strings.HasPrefix(event, "/sse?") || response.Proto != proto {
			t.Errorf("%s: the first event is %q, by %s", proto, event, response.Proto)
		}
		_ = response.Body.Close()
	}
	listen := p.openListen(t, a.client(nil, nil))
	defer listen.Body.Close()
	if event := nextEvent(bufio.NewScanner(listen.Body)); !strings.Contains(event, "subscriptions/acknowledged") {
		t.Errorf("the first event is %q", event)
	}
}

// openListen subscribes over HTTP/1.1.
func (p *gatewayProcess) openListen(t *testing.T, c *http.Client) *http.Response {
	t.Helper()
	transport, _ := c.Transport.(*http.Transport)
	transport.ForceAttemptHTTP2 = false
	body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{` + modernMeta + `,"notifications":{"promptsListChanged":true}}}`
	response, err := c.Do(modernRequest(t.Context(), p.endpoint, "subscriptions/listen", body, ""))
	if err != nil {
		t.Fatal(err)
	}
	return response
}
