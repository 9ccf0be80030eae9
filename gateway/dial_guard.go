package gateway

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/promptweir/promptweir/config"
)

// dialGuard decides which addresses upstreams may have. The zero value is ready for use.
type dialGuard struct {
	mu  sync.RWMutex     // guards own
	own []netip.AddrPort // the gateway's own listeners
}

func (d *dialGuard) add(own netip.AddrPort) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.own = append(d.own, own)
}

// check returns an error for a resolved address that no upstream may have: an address that
// [config.NeverDialed] refuses, or a listener of the gateway, through which it would call itself.
func (d *dialGuard) check(address string) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := target.Addr().Unmap().WithZone("")
	if why := config.NeverDialed(ip); why != "" {
		return fmt.Errorf("%s %s", ip, why)
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, own := range d.own {
		// Dialing the unspecified address (0.0.0.0 or ::) reaches this machine.
		same := own.Addr().Unmap().WithZone("") == ip || ip.IsUnspecified() ||
			(own.Addr().IsUnspecified() && isLocal(ip))
		if same && own.Port() == target.Port() {
			return fmt.Errorf("%s is the gateway's own listener", address)
		}
	}
	return nil
}

// isLocal reports whether an address belongs to this machine.
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
