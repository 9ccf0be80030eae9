package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// sessionBound is how long a session lasts.
	sessionBound = 12 * time.Hour
	// maxSessions bounds the sessions. The oldest gives way.
	maxSessions = 64
)

// sessions are those of operators who signed in, in memory: they end with the process. The zero value has none.
type sessions struct {
	mu  sync.Mutex                  // guards all
	all map[[sha256.Size]byte]grant // by the hash of the cookie, so that a lookup takes as long whatever is compared
}

// grant is what a session stands on.
type grant struct {
	expires time.Time
	// token is the hash of the token that was given. A session ends when the configuration has another one.
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
	s.all[sha256.Sum256([]byte(value))] = grant{now.Add(sessionBound), token}
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
