package gateway

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// dialGuard says which addresses upstreams may be at. The zero value is ready.
type dialGuard struct {
	mu  sync.RWMutex     // guards own
	own []netip.AddrPort // those that the gateway listens on
}

func (d *dialGuard) add(own netip.AddrPort) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.own = append(d.own, own)
}

// check returns why no upstream may be dialed at a resolved address, or nil. Under link-local addresses and some others,
// clouds serve the credentials of the machine; on its own listeners, the gateway would call itself.
func (d *dialGuard) check(address string) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := target.Addr().Unmap().WithZone("")
	for _, reached := range []netip.Addr{ip, embedded(ip)} {
		switch {
		case reached.IsLinkLocalUnicast(), reached.IsLinkLocalMulticast():
			return fmt.Errorf("%s is link-local: no upstream may be there", ip)
		case isMetadata(reached):
			return fmt.Errorf("%s is where clouds serve a machine's credentials: no upstream may be there", ip)
		}
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, own := range d.own {
		// Dialing the unspecified address reaches this machine.
		same := own.Addr().Unmap().WithZone("") == ip || ip.IsUnspecified() || (own.Addr().IsUnspecified() && isLocal(ip))
		if same && own.Port() == target.Port() {
			return fmt.Errorf("%s is the gateway's own listener", address)
		}
	}
	return nil
}

// isMetadata reports whether clouds serve a machine's credentials at an address that is not link-local.
func isMetadata(ip netip.Addr) bool {
	switch ip {
	case netip.AddrFrom4([4]byte{100, 100, 100, 200}), netip.AddrFrom4([4]byte{168, 63, 129, 16}),
		netip.AddrFrom4([4]byte{192, 0, 0, 192}), netip.MustParseAddr("fd00:ec2::254"):
		return true
	}
	return false
}

// embedded returns the IPv4 address to which the network may translate an IPv6 address, or the zero Addr.
func embedded(ip netip.Addr) netip.Addr {
	if !ip.Is6() {
		return netip.Addr{}
	}
	b := ip.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(ip), // NAT64 (RFC 6052)
		netip.MustParsePrefix("::/96").Contains(ip): // IPv4-compatible (RFC 4291)
		return netip.AddrFrom4([4]byte(b[12:16]))
	case netip.MustParsePrefix("2002::/16").Contains(ip): // 6to4 (RFC 3056)
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return netip.Addr{}
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
