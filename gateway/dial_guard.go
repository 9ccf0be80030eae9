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

// check returns why no upstream may be dialled at a resolved address, or nil. Under link-local addresses and some others,
// clouds serve the credentials of the machine; on its own listeners, the gateway would call itself.
func (d *dialGuard) check(address string) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := target.Addr().Unmap().WithZone("")
	if ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || isMetadata(ip) {
		return fmt.Errorf("%s is link-local: no upstream may be there", ip)
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, own := range d.own {
		// Dialling the unspecified address reaches this machine.
		same := own.Addr().Unmap().WithZone("") == ip || ip.IsUnspecified() || (own.Addr().IsUnspecified() && isLocal(ip))
		if same && own.Port() == target.Port() {
			return fmt.Errorf("%s is the gateway's own listener", address)
		}
	}
	return nil
}

// isMetadata reports whether clouds serve a machine's credentials at an address that is not link-local.
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
