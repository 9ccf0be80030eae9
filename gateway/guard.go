package gateway

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/promptweir/promptweir/upstream/wire"
)

// hostGuard refuses requests that a browser was tricked into: each of Host and Origin, where it is present, must name
// this gateway (2026-07-28, Streamable HTTP, "Security & Endpoint").
type hostGuard struct {
	hosts   []string // lower case, without a port
	origins []string // scheme://host:port
}

func newHostGuard(listen, publicURL string, hosts, origins []string) hostGuard {
	guard := hostGuard{hosts: []string{"localhost", "127.0.0.1", "::1"}, origins: origins}
	if host, _, err := net.SplitHostPort(listen); err == nil && host != "" {
		guard.hosts = append(guard.hosts, strings.ToLower(host))
	}
	if u, err := url.Parse(publicURL); err == nil && u.Hostname() != "" {
		guard.hosts = append(guard.hosts, strings.ToLower(u.Hostname()))
	}
	for _, host := range hosts {
		guard.hosts = append(guard.hosts, hostname(host))
	}
	return guard
}

// hostname is a Host header's value without its port, in lower case.
func hostname(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil { // it has none
		host = strings.Trim(hostport, "[]")
	}
	return strings.ToLower(host)
}

// check returns why the request is refused, or nil.
func (h hostGuard) check(r *http.Request) error {
	if err := h.checkHost(r); err != nil {
		return err
	}
	origin := wire.Header(r.Header, "Origin")
	if origin == "" || slices.Contains(h.origins, origin) {
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || !h.knows(strings.ToLower(u.Hostname()), r) {
		return fmt.Errorf("origin %q is not allowed: add it to allowed_origins", origin)
	}
	return nil
}

// checkHost is check for what pages of any origin may read.
func (h hostGuard) checkHost(r *http.Request) error {
	if !h.knows(hostname(r.Host), r) {
		return fmt.Errorf("host %q is not this gateway's: add it to allowed_hosts", r.Host)
	}
	return nil
}

// knows reports whether a host is one of the gateway's, or the very address that the request came in by: a name can
// be made to point here by anybody, an address cannot.
func (h hostGuard) knows(host string, r *http.Request) bool {
	if slices.Contains(h.hosts, host) {
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

// ownAddresses are those that the gateway listens on: an upstream there would be the gateway itself.
type ownAddresses struct {
	mu  sync.RWMutex // guards all
	all []netip.AddrPort
}

func (o *ownAddresses) add(address netip.AddrPort) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, address)
}

// forbids says why an upstream may not be dialled at a resolved address, or nil.
func (o *ownAddresses) forbids(address string) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := target.Addr().Unmap().WithZone("")
	if ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || isMetadata(ip) {
		return fmt.Errorf("%s is link-local: no upstream may be there", ip)
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	for _, own := range o.all {
		// Whoever dials the unspecified address reaches this machine.
		same := own.Addr().Unmap().WithZone("") == ip || ip.IsUnspecified() || (own.Addr().IsUnspecified() && isLocal(ip))
		if same && own.Port() == target.Port() {
			return fmt.Errorf("%s is the gateway's own listener", address)
		}
	}
	return nil
}

// isMetadata reports whether an address is one under which clouds serve a machine's credentials, link-local ones aside.
func isMetadata(ip netip.Addr) bool {
	return ip == netip.AddrFrom4([4]byte{100, 100, 100, 200}) || ip == netip.MustParseAddr("fd00:ec2::254")
}

// isLocal reports whether an address is one of this machine's.
func isLocal(ip netip.Addr) bool {
	if ip.IsLoopback() {
		return true
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(addresses, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().Unmap() == ip
	})
}
