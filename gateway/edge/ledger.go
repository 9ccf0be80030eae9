package edge

import (
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/promptweir/promptweir/upstream/loglimit"
)

// Options are the bounds of a [Ledger].
type Options struct {
	// Logger gets a warning when connections are refused. If it is nil, nothing is logged.
	Logger *slog.Logger
	// Connections bounds connections, and streams over HTTP/2. If it is 0, there is no bound.
	Connections int
	// Memory is the number of bytes of which max_buffered may be a percentage. With 0, a percentage bounds
	// nothing.
	Memory int64
}

// Ledger counts the connections, streams and bytes of each client and each upstream. Make it with [New]. Its
// methods are safe for concurrent use.
type Ledger struct {
	connections int
	memory      int64
	logger      *slog.Logger

	// total is the number of bytes of all reservations. It is written under mu, and read without mu.
	total atomic.Int64

	mu       sync.Mutex // guards the fields below, and all accounts
	accounts map[key]*account
	// open counts connections and streams over HTTP/2. unauthenticated counts connections without
	// an accepted credential.
	open, unauthenticated int
}

// New returns an empty ledger.
func New(opts Options) *Ledger {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Ledger{
		connections: opts.Connections, memory: opts.Memory, accounts: map[key]*account{},
		// Limit the warnings: anyone can cause them at any rate.
		logger: loglimit.New(opts.Logger, 1, "bound"),
	}
}

// key names the account of a client (by address or principal), of an upstream, or of a client with
// responses of an upstream.
type key struct{ client, upstream string }

// account contains the counts for a key. It is deleted when it is empty.
type account struct {
	key                  key
	bytes                int64
	connections, streams int
}

// accountLocked returns the account of a key, and creates the account if it does not exist. Call settleLocked
// after each change.
func (l *Ledger) accountLocked(k key) *account {
	a := l.accounts[k]
	if a == nil {
		a = &account{key: k}
		l.accounts[k] = a
	}
	return a
}

// settleLocked deletes the account if it is empty.
func (l *Ledger) settleLocked(a *account) {
	if a.bytes == 0 && a.connections == 0 && a.streams == 0 {
		delete(l.accounts, a.key)
	}
}

// AddressKey returns the account key of the client at a network address: the address itself or, for IPv6, its
// network of clientBits. No principal's key looks like an address.
func AddressKey(address string) string {
	if !strings.Contains(address, ":") { // IPv4, or no address
		return address
	}
	ip, err := netip.ParseAddr(address)
	if err != nil || !ip.Unmap().Is6() {
		return address
	}
	return netip.PrefixFrom(ip.WithZone(""), clientBits).Masked().String()
}

// clientBits is the length of an IPv6 network that counts as one client.
const clientBits = 64
