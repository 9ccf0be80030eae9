package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

// How many wrong tokens are compared with the admin token: of one address so many at once, and one more in each of these times; of
// all addresses together likewise.
const (
	addressAttempts = 10
	addressInterval = 6 * time.Second
	allAttempts     = 100
	allInterval     = time.Second
	// maxAddresses bounds the addresses that are remembered, to those that were seen last.
	maxAddresses = 4096
)

// attempts bounds the wrong tokens that callers may try, and with them the lines of the audit log that anybody can cause. The bound of
// all addresses together does not hold for one that had the right token before, so that strangers cannot lock operators out. Make it
// with [newAttempts].
type attempts struct {
	mu        sync.Mutex // guards what follows
	all       guesses
	addresses *simplelru.LRU[string, *guesses]
	// welcome are the addresses from which the right token came.
	welcome *simplelru.LRU[string, struct{}]
}

// guesses are the wrong tokens of an address, or of all.
type guesses struct {
	left *rate.Limiter
	// last is the one that was compared last, with which token of the configuration.
	last, with [sha256.Size]byte
	// waiting is set from the first token that was not compared until the next one that is.
	waiting bool
}

// verdict is what became of a token.
type verdict struct {
	ok bool
	// wait is how long until another token is compared; 0 after one that was.
	wait time.Duration
	// news says that the refusal is one to be recorded: at most two lines for each token that is compared.
	news bool
}

func newAttempts() *attempts {
	addresses, err := simplelru.NewLRU[string, *guesses](maxAddresses, nil)
	if err != nil {
		panic(err) // only for a size below one
	}
	welcome, err := simplelru.NewLRU[string, struct{}](maxAddresses, nil)
	if err != nil {
		panic(err)
	}
	return &attempts{all: guesses{left: rate.NewLimiter(rate.Every(allInterval), allAttempts)}, addresses: addresses, welcome: welcome}
}

// try compares the hash of a token from an address with the one that is wanted, unless too many were wrong. The token that was wrong
// before is no other guess, so that a program with an old one keeps nobody else at its address out.
func (a *attempts) try(address string, token, want [sha256.Size]byte, now time.Time) verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	from, known := a.addresses.Get(address)
	if !known {
		from = &guesses{left: rate.NewLimiter(rate.Every(addressInterval), addressAttempts)}
	}
	if from.last == token && from.with == want {
		return verdict{}
	}
	if wait := from.wait(now, addressInterval); wait > 0 {
		return from.refuse(wait)
	}
	if wait := a.all.wait(now, allInterval); wait > 0 && !a.welcome.Contains(address) {
		return a.all.refuse(wait)
	}
	if subtle.ConstantTimeCompare(token[:], want[:]) == 1 {
		a.welcome.Add(address, struct{}{})
		return verdict{ok: true}
	}
	a.addresses.Add(address, from)
	from.count(now)
	from.last, from.with = token, want
	a.all.count(now)
	return verdict{news: true}
}

// wait returns how long until another token may be compared.
func (g *guesses) wait(now time.Time, interval time.Duration) time.Duration {
	return time.Duration((1 - g.left.TokensAt(now)) * float64(interval))
}

// refuse notes that a token is not compared.
func (g *guesses) refuse(wait time.Duration) verdict {
	news := !g.waiting
	g.waiting = true
	return verdict{wait: wait, news: news}
}

// count counts a token that was wrong.
func (g *guesses) count(now time.Time) {
	g.left.AllowN(now, 1)
	g.waiting = false
}
