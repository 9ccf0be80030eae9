package audit

import (
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

// How many refusals are recorded that anybody can cause: of one address so many at once, and one
// more in each of these times; of all addresses together likewise, which is at most 86,500 lines a
// day.
const (
	addressLines    = 10
	addressInterval = 6 * time.Second
	allLines        = 100
	allInterval     = time.Second
	// countInterval is how often a line says how many others there were.
	countInterval = time.Minute
	// maxAddresses bounds the addresses that are told apart, to those that were seen last.
	maxAddresses = 4096
)

// strangers bounds the lines that callers can cause who have shown no credential: without a bound,
// one of them could fill the disk, after which a required log refuses everybody. Make it with
// [newStrangers].
type strangers struct {
	mu        sync.Mutex // guards what follows
	all       *rate.Limiter
	addresses *simplelru.LRU[string, *rate.Limiter]
	// unrecorded are the refusals since the last line that counted them, and timer writes the next
	// one.
	unrecorded uint64
	timer      *time.Timer
}

func newStrangers() *strangers {
	addresses, err := simplelru.NewLRU[string, *rate.Limiter](maxAddresses, nil)
	if err != nil {
		panic(err) // only for a size below one
	}
	return &strangers{all: rate.NewLimiter(rate.Every(allInterval), allLines), addresses: addresses}
}

// isStrangers reports whether a line is about a request that anybody can send any number of, and
// that was given nothing. Who has a credential answers for its requests, up to its limits: what is
// refused beyond those costs it nothing.
func (l *Line) isStrangers() bool {
	switch l.Outcome {
	case Refused:
		return l.Subject == "" || l.Anonymous || l.Reason == "rate_limited"
	case Unknown, Hidden:
		return l.Anonymous
	}
	return false
}

// most returns how full the queue may be for the line.
func (l *Line) most() int {
	switch l.Outcome {
	case Refused, Unknown, Hidden:
		return maxRefused
	}
	return maxQueue
}

// admit reports whether a stranger's line is to be written. The first of the others has count
// called a little later.
func (s *strangers) admit(l *Line, count func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	address := network(l.Client)
	own, known := s.addresses.Get(address)
	if !known {
		own = rate.NewLimiter(rate.Every(addressInterval), addressLines)
		s.addresses.Add(address, own)
	}
	now := time.Now()
	// The address first: one that has used up its own takes nothing from others.
	if own.AllowN(now, 1) && s.all.AllowN(now, 1) {
		return true
	}
	if s.unrecorded++; s.timer == nil {
		s.timer = time.AfterFunc(countInterval, count)
	}
	return false
}

// drain returns how many lines were not written since it was called last.
func (s *strangers) drain() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	n := s.unrecorded
	s.unrecorded, s.timer = 0, nil
	return n
}

// network returns whose address it is: of IPv6, one client can have 64 bits to itself.
func network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || !ip.Unmap().Is6() {
		return address
	}
	prefix, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return address
	}
	return prefix.String()
}
