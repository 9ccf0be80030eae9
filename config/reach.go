package config

import (
	"net"
	"net/netip"
	"net/url"

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
}

// checkHost reports an address that no upstream may have, and returns an error for one that the team was not granted. Names
// are resolved and checked again when they are dialed; only what is certain from the text is decided here.
func (r reach) checkHost(b *hclread.Block, t hclread.Text, u *url.URL) error {
	host, port := hostOf(u), portOf(u)
	// Reported rather than returned, since a grant of the host does not help.
	if isLinkLocal(host) {
		b.Error(t.At, "Upstream not reachable", "Link-local and cloud metadata addresses give out the machine's own credentials; no upstream may be there.")
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

// isLinkLocal reports whether a host is a link-local address or a name under which clouds serve metadata.
func isLinkLocal(host string) bool {
	switch host {
	case "metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal",
		"100.100.100.200", "fd00:ec2::254":
		return true
	}
	ip, err := netip.ParseAddr(host)
	ip = ip.Unmap()
	return err == nil && (ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast())
}

// newListeners reports listeners that leave the gateway open, or that collide, and returns those that are known for certain.
func newListeners(r *hclread.Reader, cfg *Config) (ls listeners) {
	gatewayHost, gatewayPort, _ := net.SplitHostPort(cfg.Gateway.Listen)
	adminHost, adminPort, _ := net.SplitHostPort(cfg.Admin.Listen)
	gateways, admins := r.Blocks("gateway"), r.Blocks("admin")
	if len(gateways) > 0 && cfg.Auth == nil && !isLoopback(gatewayHost) && !r.Broken() {
		r.Error(gateways[0].ValueRange("listen"), "Open to everyone",
			"Without an auth block everyone is anonymous and in every team, so the gateway may only listen on loopback; add auth or listen on 127.0.0.1.")
	}
	clash := gatewayPort == adminPort && gatewayPort != "0" && sameHost(gatewayHost, adminHost)
	switch {
	case clash && len(admins) > 0:
		r.Error(admins[0].ValueRange("listen"), "Address used twice", "gateway.listen and admin.listen are the same address; change one.")
	case clash && len(gateways) > 0 && !r.Broken():
		r.Error(gateways[0].ValueRange("listen"), "Address used twice", "admin.listen is %s by default; change one of the two.", DefaultAdminListen)
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
