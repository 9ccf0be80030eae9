package interop_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// nginxSettings are those of an nginx with an HTTPS server, one that also wants a certificate of its clients, and one for HTTP
// whose server behind it is down. Its arguments are its folder and their ports.
const nginxSettings = `
daemon off;
master_process off;
pid %[1]s/pid;
error_log %[1]s/error.log;
events {}
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  ssl_certificate %[1]s/server.crt;
  ssl_certificate_key %[1]s/server.key;
  server { listen %[2]s ssl http2; }
  server {
    listen %[3]s ssl http2;
    ssl_client_certificate %[1]s/server.crt;
    ssl_verify_client on;
  }
  server {
    listen %[4]s;
    location / { proxy_pass http://%[5]s; }
  }
}
`

// TestNginx_RefusalsAreExplained points upstreams at an nginx that refuses them each in its own way.
func TestNginx_RefusalsAreExplained(t *testing.T) {
	dir := t.TempDir()
	issueCertificate(t, dir, "server")
	issueCertificate(t, dir, "other")
	secured, mutual, plain := startNginx(t, dir)
	block := func(name, url, transport, tls string) string {
		return fmt.Sprintf("upstream %q {\n url = %q\n transport = %q\n tls {\n ca_file = %q\n %s\n }\n}", name, url, transport, filepath.Join(dir, "server.crt"), tls)
	}
	other := fmt.Sprintf("cert_file = %q\n key_file = %q", filepath.Join(dir, "other.crt"), filepath.Join(dir, "other.key"))
	file := configure(t, defaultPages,
		fmt.Sprintf("upstream \"plain\" { url = \"http://%s/mcp\" }", secured),
		fmt.Sprintf("upstream \"plain_sse\" {\n url = \"http://%s/mcp\"\n transport = \"sse\"\n}", secured),
		block("none", "https://"+mutual+"/mcp", "streamable-http", ""), block("none_sse", "https://"+mutual+"/mcp", "sse", ""),
		block("stranger", "https://"+mutual+"/mcp", "streamable-http", other),
		fmt.Sprintf("upstream \"reverse\" { url = \"https://%s/mcp\" }", plain),
		fmt.Sprintf("upstream \"down\" { url = \"http://%s/mcp\" }", plain),
	)
	bin := t.TempDir()
	proctest.Build(t, bin, "./cmd/promptweir")
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "promptweir"), "list", "--config", file).CombinedOutput()
	if err == nil {
		t.Error("list succeeds without any upstream")
	}
	for name, want := range map[string]string{
		"plain": secured + " wants HTTPS; ", "plain_sse": secured + " wants HTTPS; ",
		"none":     mutual + " wants a client certificate, and the gateway has none; ",
		"none_sse": mutual + " wants a client certificate, and the gateway has none; ",
		"stranger": mutual + " does not accept the gateway's certificate: ",
		"reverse":  plain + " does not speak TLS; ",
		"down":     "HTTP 502 Bad Gateway: a proxy does not reach the server",
	} {
		if !strings.Contains(string(out), ") is down: "+want) {
			t.Errorf("of %s, list does not say %q", name, want)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}

// startNginx runs an nginx with the certificate in a folder, and returns the addresses of its three servers.
func startNginx(t *testing.T, dir string) (secured, mutual, plain string) {
	t.Helper()
	secured, mutual, plain = unused(t), unused(t), unused(t)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, nginxSettings, dir, secured, mutual, plain, unused(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	proxy := exec.CommandContext(t.Context(), proxyProgram("nginx"), "-e", filepath.Join(dir, "error.log"), "-c", file)
	var said strings.Builder
	proxy.Stdout, proxy.Stderr = &said, &said
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { _ = proxy.Wait(); close(exited) }()
	t.Cleanup(func() { <-exited }) // which the end of the test's context kills
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", plain)
		if err == nil {
			_ = conn.Close()
			return secured, mutual, plain
		}
		select {
		case <-exited:
			t.Fatalf("nginx: %s", said.String())
		case <-ctx.Done():
			t.Fatal("nginx does not listen")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// issueCertificate writes a certificate for this machine, which is its own issuer, and its key into a folder.
func issueCertificate(t *testing.T, dir, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
