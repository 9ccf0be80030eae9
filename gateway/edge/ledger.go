package edge

import (
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/promptweir/promptweir/upstream/loglimit"
)

// Options are what a [Ledger] bounds.
type Options struct {
	// Logger gets a warning when connections are refused; nil logs nothing.
	Logger *slog.Logger
	// Connections is how many connections, and streams over HTTP/2, there may be; 0 bounds nothing.
	Connections int
	// Memory is how many bytes a percentage is of; 0 makes a percentage bound nothing.
	Memory int64
}

// Ledger has an account of what each client holds. Make it with [New]. Its methods are safe for
// concurrent use.
type Ledger struct {
	connections int
	memory      int64
	logger      *slog.Logger

	// total is how many bytes are held. It is written under mu.
	total atomic.Int64

	mu       sync.Mutex // guards what follows, and all accounts
	accounts map[key]*account
	// open counts connections and streams over HTTP/2, unauthenticated the connections on which no
	// credential has been accepted.
	open, unauthenticated int
}

// New returns an empty ledger.
func New(opts Options) *Ledger {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Ledger{
		connections: opts.Connections, memory: opts.Memory, accounts: map[key]*account{},
		// Anybody can cause these records, any number of times.
		logger: loglimit.New(opts.Logger, 1, "bound"),
	}
}

// key names an account: a client's, which is an address or a principal, an upstream's, or that of a
// client with responses of an upstream.
type key struct{ client, upstream string }

// account is what one client holds. It leaves the ledger when that is nothing.
type account struct {
	key                  key
	bytes                int64
	connections, streams int
}

// accountLocked returns a client's account, which it opens if need be. After each change,
// settleLocked must follow.
func (l *Ledger) accountLocked(k key) *account {
	a := l.accounts[k]
	if a == nil {
		a = &account{key: k}
		l.accounts[k] = a
	}
	return a
}

// settleLocked closes an account that holds nothing.
func (l *Ledger) settleLocked(a *account) {
	if a.bytes == 0 && a.connections == 0 && a.streams == 0 {
		delete(l.accounts, a.key)
	}
}

// AddressKey returns the client at a network address: the address itself, which is unlike any
// principal's key, or the network of IPv6 that one client can have to itself.
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

// clientBits is the length of the network of IPv6 that counts as one client.
const clientBits = 64
