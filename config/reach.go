package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// listener is an address of the gateway's own, named by its attribute.
type listener struct{ name, host, port string }

// listeners are the gateway's own, which no upstream can be at.
type listeners []listener

// reach decides which addresses the upstreams of a team may have and which commands they may run.
type reach struct {
	listeners listeners
	*grants
	skipDirs   bool // see [Options]
	assertions *assertions
}

// checkHost reports an address that no upstream may have, and returns an error for one that the
// team was not granted. Names are resolved and checked again when they are dialed; only what is
// certain from the text is decided here.
func (r reach) checkHost(b *hclread.Block, t hclread.Text, u *url.URL) error {
	host, port := hostOf(u), portOf(u)
	// Reported rather than returned, since a grant of the host does not help.
	if isMetadataName(host) || isNeverDialed(host) {
		b.Error(t.At, "Upstream not reachable", "Link-local and cloud metadata addresses give "+
			"out the machine's own credentials; no upstream may be there.")
	} else if own := r.listeners.find(host, port); own != "" {
		b.Error(t.At, "Upstream not reachable", "This is the gateway's own %s; give the address of the upstream.", own)
	}
	return r.allowHost(host, t)
}

// find returns the name of the attribute that listens where an upstream would be, or nothing.
func (ls listeners) find(host, port string) string {
	for _, own := range ls {
		if own.port == port && port != "0" && sameHost(own.host, host) {
			return own.name
		}
	}
	return ""
}

// isMetadataName reports whether clouds serve a machine's credentials under a name.
func isMetadataName(host string) bool {
	return slices.Contains([]string{
		"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal",
	}, host)
}

func isNeverDialed(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && NeverDialed(ip) != ""
}

// NeverDialed continues a sentence that begins with an address at which no upstream may be, and
// says why; it is empty for any other. Under link-local addresses and some others, clouds serve the
// credentials of the machine. An IPv6 address to which the network may translate one of IPv4 counts
// as that, too.
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

// isMetadata reports whether clouds serve a machine's credentials at an address that is not
// link-local: those of Alibaba, Azure and Oracle, and over IPv6 of AWS, Google, Oracle, Scaleway,
// Alibaba and Akamai.
func isMetadata(ip netip.Addr) bool {
	return isIn(ip, "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32",
		"fd20:ce::254/128", "fd00:c1::a9fe:a9fe/128", "fd00:42::42/128", "fd00:100::100:200/128",
		"fd00:a9fe:a9fe::1/128")
}

// embedded returns the IPv4 address to which the network may translate an IPv6 address, or the zero
// Addr.
func embedded(ip netip.Addr) netip.Addr {
	b := ip.As16()
	switch {
	case isIn(ip, "64:ff9b::/96", "64:ff9b:1::/48", // NAT64 (RFC 6052 and, as is usual, 8215)
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

// newListeners reports listeners that leave the gateway open, or that collide, and returns those
// that are known for certain.
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
		r.Error(admins[0].ValueRange("listen"), "Address used twice", "gateway.listen and "+
			"admin.listen are the same address; change one.")
	case clash && len(gateways) > 0 && !r.Broken():
		r.Error(gateways[0].ValueRange("listen"), "Address used twice", "admin.listen is %s by "+
			"default; change one of the two.", DefaultAdminListen)
	}
	// An absent block may be in a file that does not parse. Then its default is not known to apply.
	if len(gateways) > 0 || !r.Broken() {
		ls = append(ls, listener{"gateway.listen", gatewayHost, gatewayPort})
	}
	if len(admins) > 0 || !r.Broken() {
		ls = append(ls, listener{"admin.listen", adminHost, adminPort})
	}
	return ls
}
