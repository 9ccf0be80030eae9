package edge

import (
	"log/slog"

	"github.com/promptweir/promptweir/config"
)

// Parts of the connection limit: the connections without a credential may use half of the limit in total, and
// one address or principal may use a quarter.
const (
	unauthenticatedShare = 2
	addressShare         = 4
	principalShare       = 4
)

// share returns the connection limit divided by part, but at least 1.
func (l *Ledger) share(part int) int { return max(l.connections/part, 1) }

// admit counts an accepted connection and reports whether it may stay. If so, release must follow.
// If cfg is nil, only the connection limit itself applies.
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
	// A reverse proxy's connections carry the requests of many clients.
	case account.connections >= l.share(addressShare) && !cfg.Gateway.IsProxy(peer):
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

// authenticated records that a credential was accepted on a connection.
func (l *Ledger) authenticated(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.isClosed && !c.isAuthenticated.Swap(true) {
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
	if !c.isAuthenticated.Load() {
		l.unauthenticated--
	}
	account := l.accountLocked(key{client: c.client})
	account.connections--
	l.settleLocked(account)
}

// OpenStream counts one more stream of a principal. ok is false if the principal has its maximum: a quarter of
// the connection limit, or maxStreams if that is smaller and not 0. If multiplexed is true, as for HTTP/2, the
// stream also counts as a connection, and ok is also false if there are too many connections. If ok is true,
// call release once.
func (l *Ledger) OpenStream(principal string, maxStreams int, multiplexed bool) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	places := 0
	if multiplexed {
		places = 1
	}
	if l.connections > 0 {
		if quarter := l.share(principalShare); maxStreams == 0 || quarter < maxStreams {
			maxStreams = quarter
		}
		if l.open+places > l.connections {
			return nil, false
		}
	}
	account := l.accountLocked(key{client: principal})
	if maxStreams > 0 && account.streams >= maxStreams {
		return nil, false // the account is not empty, so it stays
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
