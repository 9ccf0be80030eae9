package origin_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/origin"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// checking tells what becomes of requests that arrive at one listener.
type checking struct {
	t     *testing.T
	check origin.Check
	// arrivedAt is the local address of their connection.
	arrivedAt string
}

func (c checking) request(host, from string) *http.Request {
	ctx := context.Background()
	if c.arrivedAt != "" {
		address, err := net.ResolveTCPAddr("tcp", c.arrivedAt)
		if err != nil {
			c.t.Fatal(err)
		}
		ctx = context.WithValue(ctx, http.LocalAddrContextKey, address)
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", nil)
	r.Host = host
	if from != "" {
		r.Header.Set("Origin", from)
	}
	return r
}

// allow wants requests to a host, from pages of an origin or of none for "", to be allowed.
func (c checking) allow(host, from string) {
	c.t.Helper()
	if err := c.check.Request(c.request(host, from)); err != nil {
		c.t.Errorf("Host %q, Origin %q: %v, want it allowed", host, from, err)
	}
}

// deny wants them to be refused with an error that names the attribute to change.
func (c checking) deny(attribute, host, from string) {
	c.t.Helper()
	if err := c.check.Request(c.request(host, from)); err == nil || !strings.Contains(err.Error(), attribute) {
		c.t.Errorf("Host %q, Origin %q: %v, want it refused because of %s", host, from, err, attribute)
	}
}

const (
	hosts   = "allowed_hosts"
	origins = "allowed_origins"
)

func TestCheck_AllowsTheNamesOfTheGateway(t *testing.T) {
	check := origin.New("weir.lan:8080", "https://Prompts.example.com/mcp", []string{"Weir.internal:8443"}, []string{"https://app.example.com"})
	c := checking{t: t, check: check}
	for _, own := range []string{"localhost", "localhost:3000", "127.0.0.1:8080", "[::1]", "[::1]:8080", "WEIR.lan:8080", "prompts.example.com", "weir.internal"} {
		c.allow(own, "")
		c.allow(own, "http://localhost:5173")
		c.allow("localhost", "https://"+own)
	}
	c.allow("localhost", "https://app.example.com")
}

func TestCheck_DeniesOtherHosts(t *testing.T) {
	c := checking{t: t, check: origin.New("127.0.0.1:8080", "", nil, []string{"https://app.example.com"})}
	for _, other := range []string{
		"", "evil.example.com", "localhost.evil.example.com", "127.0.0.1.evil.example.com:8080", "127.0.0.2", "192.0.2.1:8080", "[::2]:8080", "app.example.com",
	} {
		c.deny(hosts, other, "")
		c.deny(hosts, other, "http://localhost") // a page of the gateway's own does not make up for the host
	}
}

func TestCheck_DeniesOtherOrigins(t *testing.T) {
	c := checking{t: t, check: origin.New("127.0.0.1:8080", "https://prompts.example.com", nil, []string{"https://app.example.com"})}
	for _, other := range []string{
		"null", "http://evil.example.com", "https://prompts.example.com.evil.com", "http://127.0.0.1.evil.example.com",
		"https://app.example.com.evil.com", "http://app.example.com", "https://app.example.com:444", // an origin is allowed as a whole
		"localhost", "file:///etc/passwd", "http://%zz",
	} {
		c.deny(origins, "localhost", other)
	}
}

func TestCheck_AllowsWhatIsListed(t *testing.T) {
	c := checking{t: t, check: origin.New("127.0.0.1:8080", "", nil, []string{"vscode-webview://*", "null", "file://"})}
	for _, listed := range []string{"vscode-webview://1a2b3c", "null", "file://"} {
		c.allow("localhost", listed)
		upstreamtest.Equal(t, listed, c.check.Allowed(c.request("localhost", listed)), "the origin whose pages may read responses to %s", listed)
	}
	for _, other := range []string{"vscode-webview://", "vscode-webview://a/b", "vscode-webviewer://a", "moz-extension://a", "https://a", "nullx", "file:///a", "file://a"} {
		c.deny(origins, "localhost", other)
	}
}

// Anyone can make a name resolve to the gateway's address, but a browser that sends the address itself meant it.
func TestCheck_AllowsTheAddressThatARequestArrivedAt(t *testing.T) {
	c := checking{t: t, arrivedAt: "192.0.2.7:8080"} // the zero Check
	c.allow("192.0.2.7:8080", "")
	c.allow("[::ffff:192.0.2.7]", "")
	c.allow("192.0.2.7", "http://192.0.2.7:8080")
	c.deny(hosts, "192.0.2.8:8080", "")
	c.deny(hosts, "localhost", "")
	c.deny(origins, "192.0.2.7", "http://192.0.2.8")

	c.arrivedAt = "[fe80::1%eth0]:8080"
	c.allow("[fe80::1]:8080", "")
	c.arrivedAt = ""
	c.deny(hosts, "192.0.2.7:8080", "")
}

func TestHost_IgnoresTheOrigin(t *testing.T) {
	c := checking{t: t, check: origin.New("127.0.0.1:8080", "", nil, nil)}
	if err := c.check.Host(c.request("localhost", "http://evil.example.com")); err != nil {
		t.Errorf("Host: %v, want no error", err)
	}
	if err := c.check.Host(c.request("evil.example.com", "")); err == nil {
		t.Error("Host allows another gateway's name")
	}
}
