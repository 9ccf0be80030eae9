package transport

import (
	"context"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/promptweir/promptweir/gateway/seal"
)

const (
	// maxEnded bounds the ended sessions that are remembered. Beyond it the oldest is dropped, and
	// is valid again until it expires.
	maxEnded = 100_000
	// maxLogLevels bounds the sessions with a known log level. Beyond it the oldest is dropped, and
	// its session gets no more log messages.
	maxLogLevels = 100_000
)

// sessionID is the random id in a session token.
type sessionID = [16]byte

// legacySessions has this replica's knowledge of the legacy sessions of Streamable HTTP: the
// sessions that ended before their expiry, the stream of each session, and log levels.
type legacySessions struct {
	mu      sync.Mutex // guards what follows
	streams map[sessionID]*context.CancelFunc
	// Expired sessions stay until newer ones displace them.
	ended  *simplelru.LRU[sessionID, struct{}]
	levels *simplelru.LRU[sessionID, string]
}

func newLegacySessions() *legacySessions {
	ended, _ := simplelru.NewLRU[sessionID, struct{}](maxEnded, nil) // fails only for size zero
	levels, _ := simplelru.NewLRU[sessionID, string](maxLogLevels, nil)
	return &legacySessions{streams: map[sessionID]*context.CancelFunc{}, ended: ended, levels: levels}
}

// logLevel returns the least severe level of log messages for a session; empty for none.
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

// end ends a session and its stream.
func (l *legacySessions) end(id sessionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.levels.Remove(id)
	l.ended.Add(id, struct{}{})
	if cancel := l.streams[id]; cancel != nil {
		(*cancel)()
	}
}

// addStream returns the context of a session's stream. Call leave when the stream ends.
func (l *legacySessions) addStream(ctx context.Context, s *seal.Session) (_ context.Context, leave func()) {
	// A new stream ends the session's previous one, so that nothing is sent twice.
	ctx, cancel := withExpiry(ctx, s.Expires)
	l.mu.Lock()
	defer l.mu.Unlock()
	if before := l.streams[s.ID]; before != nil {
		(*before)()
	}
	l.streams[s.ID] = &cancel
	if l.ended.Contains(s.ID) { // ended since the session was opened
		cancel()
	}
	return ctx, func() {
		cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		// A newer stream may have replaced the entry.
		if l.streams[s.ID] == &cancel {
			delete(l.streams, s.ID)
		}
	}
}
