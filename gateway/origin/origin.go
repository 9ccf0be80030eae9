// Package origin answers: does a browser's request mean this gateway, or was the browser tricked
// into it?
//
// A page on any site can make a browser send requests to the addresses of this machine, and a name
// can be made to point here (DNS rebinding). So each of the headers Host and Origin, where it is
// present, must name this gateway (2026-07-28, Streamable HTTP, "Security & Endpoint").
//
// A [Check] is immutable and safe for concurrent use.
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

// Check holds the names of one listener. The zero value accepts only the address that a request
// came in by.
type Check struct {
	hosts   []string // lower case, without a port
	origins []string // scheme://host:port, scheme://* or null
}

// New returns the check of a listener at an address, with the public URL, further hosts and further
// origins of its configuration, each of which may be empty. The names of this machine's loopback
// are always accepted.
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

// Request returns why a request must be refused, or nil.
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

// Allowed returns the request's origin if the configuration lists it, and "" otherwise. Its pages
// may read responses.
func (c Check) Allowed(r *http.Request) string {
	if origins := r.Header["Origin"]; len(origins) == 1 && c.lists(origins[0]) {
		return origins[0]
	}
	return ""
}

// lists reports whether the configuration has an origin.
func (c Check) lists(origin string) bool {
	return slices.ContainsFunc(c.origins, func(listed string) bool {
		scheme, isWild := strings.CutSuffix(listed, "*")
		host, within := strings.CutPrefix(origin, scheme)
		return listed == origin || isWild && within && host != "" && !strings.ContainsAny(host, "/?#")
	})
}

// Host returns why a request whose answer any page may read must be refused, or nil: it ignores the
// origin.
func (c Check) Host(r *http.Request) error {
	if !c.names(hostname(r.Host), r) {
		return fmt.Errorf("host %q is not this gateway's: add it to allowed_hosts", r.Host)
	}
	return nil
}

// names reports whether a host is one of the gateway's names, or the very address that the request
// came in by: anyone can make a name point here, but not an address.
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

// hostname returns a Host header's value in lower case and without its port.
func hostname(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil { // it has no port
		host = strings.Trim(hostport, "[]")
	}
	return strings.ToLower(host)
}
