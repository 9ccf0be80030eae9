package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

// What wrong admin tokens may cause: so many lines of each address at once, and one more in each of
// these times; of all addresses together likewise. The form takes as many from an address.
const (
	addressAttempts = 10
	addressInterval = 6 * time.Second
	allAttempts     = 100
	allInterval     = time.Second
	// maxAddresses bounds the addresses that are remembered, to those that were seen last.
	maxAddresses = 4096
)

// attempts bounds the lines of log and audit that wrong admin tokens cause, and the tries at the
// form. Make it with [newAttempts].
type attempts struct {
	mu        sync.Mutex // guards what follows
	lines     *rate.Limiter
	addresses *simplelru.LRU[string, *addressAttempt]
}

// addressAttempt is what an address has tried.
type addressAttempt struct {
	lines, form *rate.Limiter
	// closed is set from the first token that the form did not compare until the next one that it
	// does.
	closed bool
	// last is the wrong token that came last, with the token of the configuration that it was
	// compared with.
	last, with [sha256.Size]byte
}

// verdict is what became of a token.
type verdict struct {
	ok bool
	// wait is how long the form is closed for the address; 0 after a token that was compared.
	wait time.Duration
	// news says that the refusal is one to be recorded.
	news bool
}

func newAttempts() *attempts {
	addresses, err := simplelru.NewLRU[string, *addressAttempt](maxAddresses, nil)
	if err != nil {
		panic(err) // only for a size below one
	}
	return &attempts{
		lines:     rate.NewLimiter(rate.Every(allInterval), allAttempts),
		addresses: addresses,
	}
}

// inHeader compares the hash of a token from an address with the one that is wanted.
func (a *attempts) inHeader(address string, token, want [sha256.Size]byte, now time.Time) verdict {
	// Always, whatever came from the address before: strangers behind the same proxy or gateway of
	// a network would otherwise lock the operator out.
	if isSame(token, want) {
		return verdict{ok: true}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return verdict{news: a.isNewsLocked(a.ofLocked(address), token, want, now)}
}

// inForm is inHeader for a token that a person types, who can wait.
func (a *attempts) inForm(address string, token, want [sha256.Size]byte, now time.Time) verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	from := a.ofLocked(address)
	if left := from.form.TokensAt(now); left < 1 {
		wait := time.Duration((1 - left) * float64(addressInterval))
		news := !from.closed && a.lines.AllowN(now, 1) // once for each time that it closes
		from.closed = true
		return verdict{wait: wait, news: news}
	}
	from.closed = false
	if isSame(token, want) {
		return verdict{ok: true}
	}
	from.form.AllowN(now, 1)
	return verdict{news: a.isNewsLocked(from, token, want, now)}
}

func isSame(a, b [sha256.Size]byte) bool { return subtle.ConstantTimeCompare(a[:], b[:]) == 1 }

func (a *attempts) ofLocked(address string) *addressAttempt {
	from, known := a.addresses.Get(address)
	if !known {
		limiter := func() *rate.Limiter { return rate.NewLimiter(rate.Every(addressInterval), addressAttempts) }
		from = &addressAttempt{lines: limiter(), form: limiter()}
		a.addresses.Add(address, from)
	}
	return from
}

// isNewsLocked reports whether a wrong token is to be recorded.
func (a *attempts) isNewsLocked(from *addressAttempt, token, want [sha256.Size]byte, now time.Time) bool {
	if from.last == token && from.with == want {
		return false // a program that goes on with an old token guesses nothing
	}
	from.last, from.with = token, want
	return from.lines.AllowN(now, 1) && a.lines.AllowN(now, 1)
}

const (
	// sessionLifetime is how long a session lasts.
	sessionLifetime = 12 * time.Hour
	// maxSessions bounds the sessions. The oldest gives way.
	maxSessions = 64
)

// sessions are those of operators who signed in, in memory: they end with the process. The zero
// value has none.
type sessions struct {
	mu sync.Mutex // guards all
	// by the hash of the cookie, so that a lookup takes as long whatever is compared
	all map[[sha256.Size]byte]grant
}

// grant is what a session stands on.
type grant struct {
	expires time.Time
	// token is the hash of the token that was given. A session ends when the configuration has
	// another one.
	token [sha256.Size]byte
}

// begin returns the value of a new session's cookie.
func (s *sessions) begin(token [sha256.Size]byte, now time.Time) string {
	value := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[[sha256.Size]byte]grant{}
	}
	if len(s.all) >= maxSessions {
		s.dropOldestLocked()
	}
	s.all[sha256.Sum256([]byte(value))] = grant{now.Add(sessionLifetime), token}
	return value
}

func (s *sessions) dropOldestLocked() {
	var oldest [sha256.Size]byte
	var expires time.Time
	for key, g := range s.all {
		if expires.IsZero() || g.expires.Before(expires) {
			oldest, expires = key, g.expires
		}
	}
	delete(s.all, oldest)
}

// has reports whether a cookie's value is that of a session that lasts.
func (s *sessions) has(value string, token [sha256.Size]byte, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, known := s.all[sha256.Sum256([]byte(value))]
	return known && g.token == token && now.Before(g.expires)
}

// end ends a session.
func (s *sessions) end(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256([]byte(value)))
}
