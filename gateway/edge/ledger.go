package edge

import (
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/promptweir/promptweir/upstream/loglimit"
)

// maxNetworks is from how many /64 networks on a /48 is one client. A home or a site has a few of
// them, and only whoever has a /48 to spend has many.
const maxNetworks = 8

// Options are what a [Ledger] bounds.
type Options struct {
	// Logger is told of evictions; nil logs nothing.
	Logger *slog.Logger
	// Connections is how many connections and streams there may be; 0 bounds nothing.
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

	mu       sync.Mutex // guards what follows, and all accounts and slots
	accounts map[key]*account
	// slots ranks the accounts by their slots, for each class.
	slots [classes]ranking
	// closing is how many evicted connections are still open; closed signals that there are fewer.
	closing int
	closed  *sync.Cond
}

// New returns an empty ledger.
func New(opts Options) *Ledger {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Ledger{
		connections: opts.Connections, memory: opts.Memory, accounts: map[key]*account{},
		// Anybody can give reason to log, any number of times.
		logger: loglimit.New(opts.Logger, 1, "authenticated"),
	}
	l.slots[unauthenticated].class = unauthenticated
	l.closed = sync.NewCond(&l.mu)
	return l
}

// key names an account: a client's, which is an address or a principal, an upstream's, or that of a
// client with responses of an upstream.
type key struct{ client, upstream string }

// account is what one client holds. It leaves the ledger when that is nothing.
type account struct {
	key key
	// network is the /48 of an account that is a /64, and members is how many such accounts a
	// network has. What an account holds counts for its network, too.
	network *account
	members int

	bytes   int64
	streams int
	slots   [classes]roster
}

// accountLocked returns a client's account, which it opens if need be. After each change,
// settleLocked must follow.
func (l *Ledger) accountLocked(k key) *account {
	a := l.accounts[k]
	if a == nil {
		a = &account{key: k}
		l.accounts[k] = a
		// Not for what a client holds of one upstream: its own account has that as well.
		if network := networkOf(k.client); network != "" && k.upstream == "" {
			a.network = l.accountLocked(key{client: network})
			a.network.members++
			a.network.rankNetwork(&l.slots)
		}
	}
	return a
}

// settleLocked closes an account that holds nothing.
func (l *Ledger) settleLocked(a *account) {
	if a.members > 0 || a.bytes != 0 || a.streams > 0 || a.slots[all].list.Len() > 0 {
		return
	}
	delete(l.accounts, a.key)
	if a.network != nil {
		a.network.members--
		a.network.rankNetwork(&l.slots)
		l.settleLocked(a.network)
	}
}

// rankNetwork ranks a network whose members have changed: with eight it is one client, whose slots
// count together, and with seven it is none.
func (a *account) rankNetwork(slots *[classes]ranking) {
	if a.members == maxNetworks || a.members == maxNetworks-1 {
		for class := range slots {
			slots[class].rank(a)
		}
	}
}

// payer returns the account that a client's requests cost: its network's if that has too many
// clients to be several.
func (a *account) payer() *account {
	if a.network != nil && a.network.members >= maxNetworks {
		return a.network
	}
	return a
}

// CountStream counts one stream more for a client, or reports that it has as many as it may; 0 is no
// bound. If ok, release must follow, once.
func (l *Ledger) CountStream(client string, most int) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accountLocked(key{client: client})
	if most > 0 && a.streams >= most {
		return nil, false // it holds something, so the account stays
	}
	a.streams++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		a.streams--
		l.settleLocked(a)
	}, true
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

const (
	clientBits  = 64
	networkBits = 48
)

// networkOf returns the /48 of a client that is a /64; empty for any other client.
func networkOf(client string) string {
	if !strings.HasSuffix(client, "/64") {
		return ""
	}
	prefix, err := netip.ParsePrefix(client)
	if err != nil {
		return ""
	}
	return netip.PrefixFrom(prefix.Addr(), networkBits).Masked().String()
}
