package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// listener is one of the gateway's own addresses, named by its attribute.
type listener struct{ name, host, port string }

// listeners are the gateway's own addresses. No upstream may have such an address.
type listeners []listener

// reach decides which addresses a team's upstreams may have and which commands they may run.
type reach struct {
	listeners listeners
	*grants
	skipDirs   bool // see [Options]
	assertions *assertions
}

// checkHost reports an address that no upstream may have, and returns an error for a host without a
// grant. It does not resolve names, because the gateway checks each address when it connects.
func (r reach) checkHost(b *hclread.Block, t hclread.Text, u *url.URL) error {
	host, port := hostOf(u), portOf(u)
	ip, _ := netip.ParseAddr(host) // the zero Addr if the host is a name
	if isMetadataName(host) || NeverDialed(ip) != "" {
		b.Error(t.At, "Upstream not reachable",
			"Link-local and cloud metadata addresses give out the machine's own credentials; no upstream may be there.")
	} else if own := r.listeners.find(host, port); own != "" {
		b.Error(t.At, "Upstream not reachable", "This is the gateway's own %s; give the address of the upstream.", own)
	}
	return r.allow("host", "hosts", hclread.Text{Value: host, Sensitive: t.Sensitive})
}

// find returns the attribute of the listener at an address, or "" if there is none.
func (ls listeners) find(host, port string) string {
	for _, own := range ls {
		if own.port == port && port != "0" && sameHost(own.host, host) {
			return own.name
		}
	}
	return ""
}

// isMetadataName reports whether clouds serve the credentials of a machine at this name.
func isMetadataName(host string) bool {
	return slices.Contains([]string{
		"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal",
	}, host)
}

// NeverDialed returns the reason why no upstream may be at an address, or "" if one may. The text continues a
// sentence that begins with the address. At link-local and some other addresses, clouds serve the
// machine's credentials. An IPv6 address counts if the network may translate it to such an IPv4
// address.
func NeverDialed(ip netip.Addr) string {
	ip = ip.Unmap().WithZone("")
	for _, reached := range []netip.Addr{ip, embedded(ip)} {
		switch {
		case reached.IsLinkLocalUnicast(), reached.IsLinkLocalMulticast():
			return "is link-local: no upstream may be there"
		case isMetadata(reached):
			return "is where clouds serve a machine's credentials: no upstream may be there"
		}
	}
	return ""
}

// isMetadata reports whether a cloud serves a machine's credentials at an address that is not link-local:
// Alibaba, Azure and Oracle, and over IPv6 AWS, Google, Oracle, Scaleway, Alibaba and Akamai.
func isMetadata(ip netip.Addr) bool {
	return isIn(ip, "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32",
		"fd20:ce::254/128", "fd00:c1::a9fe:a9fe/128", "fd00:42::42/128", "fd00:100::100:200/128",
		"fd00:a9fe:a9fe::1/128")
}

// embedded returns the IPv4 address to which the network may translate an IPv6 address, or the zero Addr.
func embedded(ip netip.Addr) netip.Addr {
	b := ip.As16()
	switch {
	case isIn(ip, "64:ff9b::/96", "64:ff9b:1::/48", // NAT64 (RFC 6052, RFC 8215 in its usual form)
		"::ffff:0:0:0/96", "::/96"): // IPv4-translated and IPv4-compatible (RFC 2765, 4291)
		return netip.AddrFrom4([4]byte(b[12:16]))
	case isIn(ip, "2002::/16"): // 6to4 (RFC 3056)
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return netip.Addr{}
}

func isIn(ip netip.Addr, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return netip.MustParsePrefix(prefix).Contains(ip) })
}

// newListeners returns the gateway's own addresses. It leaves out an address whose block may be in a file that
// does not parse. It reports a gateway that is open to everyone, and listeners with the same address.
func newListeners(r *hclread.Reader, cfg *Config) (ls listeners) {
	gatewayHost, gatewayPort, _ := net.SplitHostPort(cfg.Gateway.Listen)
	adminHost, adminPort, _ := net.SplitHostPort(cfg.Admin.Listen)
	gateways, admins := r.Blocks("gateway"), r.Blocks("admin")
	if len(gateways) > 0 && cfg.Auth == nil && !IsLoopback(gatewayHost) && !r.Broken() {
		r.Error(gateways[0].ValueRange("listen"), "Open to everyone",
			"Without an auth block everyone is anonymous and in every team, so the gateway may only listen on loopback; add auth or listen on 127.0.0.1.")
	}
	clash := gatewayPort == adminPort && gatewayPort != "0" && sameHost(gatewayHost, adminHost)
	switch {
	case clash && len(admins) > 0:
		r.Error(admins[0].ValueRange("listen"), "Address used twice", "gateway.listen and admin.listen are the same address; change one.")
	case clash && len(gateways) > 0 && !r.Broken():
		r.Error(gateways[0].ValueRange("listen"), "Address used twice",
			"admin.listen is %s by default; change one of the two.", DefaultAdminListen)
	}
	// An absent block may be in a file that does not parse, so its default may not apply.
	if len(gateways) > 0 || !r.Broken() {
		ls = append(ls, listener{"gateway.listen", gatewayHost, gatewayPort})
	}
	if len(admins) > 0 || !r.Broken() {
		ls = append(ls, listener{"admin.listen", adminHost, adminPort})
	}
	return ls
}
