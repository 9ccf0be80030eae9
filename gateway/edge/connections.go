package edge

import (
	"log/slog"
	"net/netip"
	"slices"

	"github.com/promptweir/promptweir/config"
)

// The parts of the connection limit that some clients may take together: half, a quarter, a quarter.
const (
	unauthenticatedShare = 2
	addressShare         = 4
	principalShare       = 4
)

// share returns a part of the connection limit, at least one connection.
func (l *Ledger) share(part int) int { return max(l.connections/part, 1) }

// admit counts a connection that was accepted, and reports whether it may stay. It must be released
// if so. Without a configuration only the connection limit itself counts.
func (l *Ledger) admit(c *Conn, peer string, cfg *config.Config) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	account := l.accountLocked(key{client: c.client})
	var bound string
	switch most := l.connections; {
	case most == 0:
	case l.open >= most:
		bound = "all"
	case cfg == nil:
	case cfg.Auth != nil && l.unauthenticated >= l.share(unauthenticatedShare):
		bound = "unauthenticated"
	case account.connections >= l.share(addressShare) && !isProxy(cfg, peer):
		bound = "address"
	}
	if bound != "" {
		l.logger.Warn("connection refused: too many are open", slog.String("bound", bound),
			slog.Int("limit", l.connections), slog.String("client", c.client))
		l.settleLocked(account)
		return false
	}
	l.open++
	l.unauthenticated++
	account.connections++
	return true
}

// isProxy reports whether a peer is a reverse proxy: its connections carry the requests of many
// clients.
func isProxy(cfg *config.Config, peer string) bool {
	address, err := netip.ParseAddr(peer)
	return err == nil && slices.ContainsFunc(cfg.Gateway.TrustedProxies, func(p netip.Prefix) bool {
		return p.Contains(address.Unmap().WithZone(""))
	})
}

// authenticated notes that a credential was accepted on a connection.
func (l *Ledger) authenticated(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.isClosed && !c.isKnown.Swap(true) {
		l.unauthenticated--
	}
}

// release stops counting a connection. Calling it again does nothing.
func (l *Ledger) release(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.isClosed {
		return
	}
	c.isClosed = true
	l.open--
	if !c.isKnown.Load() {
		l.unauthenticated--
	}
	account := l.accountLocked(key{client: c.client})
	account.connections--
	l.settleLocked(account)
}

// OpenStream counts one stream more for a principal, or reports that it has as many as it may: a
// quarter of the connection limit, or most if that is fewer and not 0. A multiplexed stream, over
// HTTP/2, also counts like a connection. If ok, release must follow, once.
func (l *Ledger) OpenStream(principal string, most int, multiplexed bool) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	places := 0
	if multiplexed {
		places = 1
	}
	if l.connections > 0 {
		if quarter := l.share(principalShare); most == 0 || quarter < most {
			most = quarter
		}
		if l.open+places > l.connections {
			return nil, false
		}
	}
	account := l.accountLocked(key{client: principal})
	if most > 0 && account.streams >= most {
		return nil, false // it holds something, so the account stays
	}
	account.streams++
	l.open += places
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		account.streams--
		l.open -= places
		l.settleLocked(account)
	}, true
}
