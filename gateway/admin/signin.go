package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

const (
	// formTokens is how many tokens the form compares of an address at once, and it compares one
	// more in each formInterval.
	formTokens   = 10
	formInterval = 6 * time.Second
	// maxAddresses bounds the addresses that are remembered, to those that were seen last.
	maxAddresses = 4096
	// sessionLifetime is how long a session lasts.
	sessionLifetime = 12 * time.Hour
	// maxSessions bounds the sessions. The oldest gives way.
	maxSessions = 64
	// linkLifetime is how long a code of a link can be exchanged for a session.
	linkLifetime = 2 * time.Minute
)

// signIns are the sessions of operators who signed in, and the addresses from which somebody tried
// to. They are in memory, and end with the process. Make them with [newSignIns].
type signIns struct {
	tries *lru.Cache[string, *rate.Limiter]
	// by the hash of the cookie, so that a lookup takes as long whatever is compared
	sessions *lru.Cache[[sha256.Size]byte, grant]
	// codes are those of links, by their hash, with when they expire: the newest one only.
	codes *lru.Cache[[sha256.Size]byte, time.Time]
}

// grant is what a session stands on.
type grant struct {
	expires time.Time
	// token is the hash of the token that was given. A session ends when the configuration has
	// another one.
	token [sha256.Size]byte
}

func newSignIns() signIns {
	return signIns{
		bounded[string, *rate.Limiter](maxAddresses), bounded[[sha256.Size]byte, grant](maxSessions),
		bounded[[sha256.Size]byte, time.Time](1),
	}
}

func bounded[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, err := lru.New[K, V](size)
	if err != nil {
		panic(err) // only for a size below one
	}
	return cache
}

// try counts a token from an address, and returns how long to wait where it must not be compared.
func (s signIns) try(address string, now time.Time) (wait time.Duration) {
	tries := rate.NewLimiter(rate.Every(formInterval), formTokens)
	if before, known, _ := s.tries.PeekOrAdd(address, tries); known {
		tries = before
	}
	if tries.AllowN(now, 1) {
		return 0
	}
	return time.Duration((1 - tries.TokensAt(now)) * float64(formInterval))
}

// newCode returns the code of a link. An earlier one is worth nothing any more.
func (s signIns) newCode(now time.Time) string {
	code := rand.Text()
	s.codes.Add(sha256.Sum256([]byte(code)), now.Add(linkLifetime))
	return code
}

// redeem reports whether a code can be exchanged for a session, and ends it if so.
func (s signIns) redeem(code string, now time.Time) bool {
	sum := sha256.Sum256([]byte(code))
	expires, known := s.codes.Peek(sum)
	// Remove says whether it was there: of two who send the code at once, one gets a session.
	return known && s.codes.Remove(sum) && now.Before(expires)
}

// begin returns the value of a new session's cookie.
func (s signIns) begin(token [sha256.Size]byte, now time.Time) string {
	value := rand.Text()
	s.sessions.Add(sha256.Sum256([]byte(value)), grant{now.Add(sessionLifetime), token})
	return value
}

// has reports whether a cookie's value is that of a session that lasts.
func (s signIns) has(value string, token [sha256.Size]byte, now time.Time) bool {
	// Peek leaves the oldest session the next to give way, however much it is used.
	g, known := s.sessions.Peek(sha256.Sum256([]byte(value)))
	return known && g.token == token && now.Before(g.expires)
}

// end ends a session.
func (s signIns) end(value string) { s.sessions.Remove(sha256.Sum256([]byte(value))) }
