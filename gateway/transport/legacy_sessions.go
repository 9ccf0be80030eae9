package transport

import (
	"context"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/promptweir/promptweir/gateway/seal"
)

const (
	// maxEnded bounds the recorded ended sessions. If there are more, the oldest is forgotten: its token
	// is valid again until it expires.
	maxEnded = 100_000
	// maxLogLevels bounds the recorded log levels. If there are more, the oldest is forgotten: its
	// session gets no more log messages.
	maxLogLevels = 100_000
)

// sessionID is the random id in a session token.
type sessionID = [16]byte

// legacySessions is the state of legacy sessions of Streamable HTTP that is not in their tokens. Each
// replica has its own.
type legacySessions struct {
	mu      sync.Mutex                          // guards the fields below
	streams map[sessionID]*context.CancelFunc   // the open stream of each session
	ended   *simplelru.LRU[sessionID, struct{}] // sessions that ended before their expiry
	levels  *simplelru.LRU[sessionID, string]
}

func newLegacySessions() *legacySessions {
	ended, _ := simplelru.NewLRU[sessionID, struct{}](maxEnded, nil) // fails only for a size below one
	levels, _ := simplelru.NewLRU[sessionID, string](maxLogLevels, nil)
	return &legacySessions{streams: map[sessionID]*context.CancelFunc{}, ended: ended, levels: levels}
}

// logLevel returns the least severe level of log messages that a session gets, or "" if the client has
// set no level.
func (l *legacySessions) logLevel(id sessionID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	level, _ := l.levels.Peek(id)
	return level
}

func (l *legacySessions) setLogLevel(id sessionID, level string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.levels.Add(id, level)
}

func (l *legacySessions) hasEnded(id sessionID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended.Contains(id)
}

// end records that a session has ended, and ends its stream.
func (l *legacySessions) end(id sessionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.levels.Remove(id)
	l.ended.Add(id, struct{}{})
	if cancel := l.streams[id]; cancel != nil {
		(*cancel)()
	}
}

// addStream adds a session's stream and ends its previous stream, so that no notification is sent
// twice. The returned context ends with the session. Call leave at the end of the stream.
func (l *legacySessions) addStream(ctx context.Context, s *seal.Session) (_ context.Context, leave func()) {
	ctx, cancel := withExpiry(ctx, s.Expires)
	l.mu.Lock()
	defer l.mu.Unlock()
	if before := l.streams[s.ID]; before != nil {
		(*before)()
	}
	l.streams[s.ID] = &cancel
	if l.ended.Contains(s.ID) { // the session has ended since openSession
		cancel()
	}
	return ctx, func() {
		cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.streams[s.ID] == &cancel { // no newer stream has replaced this one
			delete(l.streams, s.ID)
		}
	}
}
