// Package origin answers: is a browser's request meant for this gateway, or did another site's page
// make the browser send it?
//
// A page of any site can make a browser send requests to addresses of this machine, and its owner can
// make a domain name point here (DNS rebinding). So the headers Host and, if present, Origin must name
// this gateway (MCP 2026-07-28, Streamable HTTP, "Security & Endpoint").
package origin

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Check contains the names of one listener. The zero value accepts only the IP address at which the
// connection arrived. A Check is immutable and safe for concurrent use.
type Check struct {
	hosts   []string // lower case, without a port
	origins []string // scheme://host:port, scheme://* or null
}

// New returns a check that accepts the host in listen, the host in publicURL, and the given hosts and origins.
// Each argument may be empty. The check also accepts the names of the loopback interface.
func New(listen, publicURL string, hosts, origins []string) Check {
	c := Check{hosts: []string{"localhost", "127.0.0.1", "::1"}, origins: origins}
	if host, _, err := net.SplitHostPort(listen); err == nil && host != "" {
		c.hosts = append(c.hosts, strings.ToLower(host))
	}
	if u, err := url.Parse(publicURL); err == nil && u.Hostname() != "" {
		c.hosts = append(c.hosts, strings.ToLower(u.Hostname()))
	}
	for _, host := range hosts {
		c.hosts = append(c.hosts, hostname(host))
	}
	return c
}

// Request returns an error if the Host or Origin of a request does not name this gateway. The error's
// text is for the client, with a remedy.
func (c Check) Request(r *http.Request) error {
	if err := c.Host(r); err != nil {
		return err
	}
	origins := r.Header["Origin"]
	if len(origins) == 0 || origins[0] == "" || c.lists(origins[0]) {
		return nil
	}
	u, err := url.Parse(origins[0])
	if err != nil || u.Host == "" || !c.names(strings.ToLower(u.Hostname()), r) {
		return fmt.Errorf("origin %q is not allowed: add it to allowed_origins", origins[0])
	}
	return nil
}

// Allowed returns the request's origin if the configuration lists it, so that pages of this origin may read
// responses. For any other origin it returns "".
func (c Check) Allowed(r *http.Request) string {
	if origins := r.Header["Origin"]; len(origins) == 1 && c.lists(origins[0]) {
		return origins[0]
	}
	return ""
}

// lists reports whether the configuration lists an origin, literally or by a scheme with "*".
func (c Check) lists(origin string) bool {
	return slices.ContainsFunc(c.origins, func(listed string) bool {
		scheme, isWild := strings.CutSuffix(listed, "*")
		host, within := strings.CutPrefix(origin, scheme)
		return listed == origin || isWild && within && host != "" && !strings.ContainsAny(host, "/?#")
	})
}

// Host is like [Check.Request], but ignores the Origin. Use it for responses that any page may read.
func (c Check) Host(r *http.Request) error {
	if !c.names(hostname(r.Host), r) {
		return fmt.Errorf("host %q is not this gateway's: add it to allowed_hosts", r.Host)
	}
	return nil
}

// names reports whether a host is one of the gateway's names or the IP address at which the
// connection arrived. An IP address is safe: DNS rebinding needs a domain name.
func (c Check) names(host string, r *http.Request) bool {
	if slices.Contains(c.hosts, host) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	address, err := netip.ParseAddrPort(local.String())
	return err == nil && address.Addr().Unmap().WithZone("") == ip.Unmap()
}

// hostname returns the value of a Host header in lower case without its port.
func hostname(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil { // no port
		host = strings.Trim(hostport, "[]")
	}
	return strings.ToLower(host)
}
