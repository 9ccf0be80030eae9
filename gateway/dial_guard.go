package gateway

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/promptweir/promptweir/config"
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

// check returns why no upstream may be dialed at a resolved address, or nil: see
// [config.NeverDialed]; on its own listeners, the gateway would call itself.
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
		// Dialing the unspecified address reaches this machine.
		same := own.Addr().Unmap().WithZone("") == ip || ip.IsUnspecified() ||
			(own.Addr().IsUnspecified() && isLocal(ip))
		if same && own.Port() == target.Port() {
			return fmt.Errorf("%s is the gateway's own listener", address)
		}
	}
	return nil
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
