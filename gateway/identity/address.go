package identity

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ClientAddress returns where a request comes from, for logs, spans, and bounds on callers without a credential. It follows
// X-Forwarded-For from hop to hop, for as long as the hop that added an address is a trusted proxy.
func ClientAddress(r *http.Request, trusted []netip.Prefix) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	var hops []string
	for _, header := range r.Header["X-Forwarded-For"] {
		hops = append(hops, strings.Split(header, ",")...)
	}
	for _, hop := range slices.Backward(hops) {
		hop = strings.TrimSpace(hop)
		if _, err := netip.ParseAddr(hop); err != nil || !isTrusted(trusted, host) {
			break
		}
		host = hop
	}
	return host
}

func isTrusted(proxies []netip.Prefix, host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(proxies, func(p netip.Prefix) bool {
		return p.Contains(ip.Unmap().WithZone(""))
	})
}
