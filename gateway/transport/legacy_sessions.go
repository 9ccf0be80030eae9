package transport

import (
	"context"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/promptweir/promptweir/gateway/seal"
)

const (
	// maxEnded bounds the sessions that are remembered as ended. Beyond it the first is forgotten,
	// and its id valid again if it has not expired.
	maxEnded = 100_000
	// maxLogLevels bounds the sessions whose log level is known. Beyond it the one that was set
	// first is forgotten, and gets no more log messages.
	maxLogLevels = 100_000
)

// sessionID is the random id of a sealed session.
type sessionID = [16]byte

// legacySessions is what this replica knows of Streamable HTTP's legacy sessions beyond their
// sealed ids: which have ended before they expired, the stream of each and the level of log
// messages that each wants.
type legacySessions struct {
	mu      sync.Mutex // guards what follows
	streams map[sessionID]*context.CancelFunc
	// Those that have expired stay until others push them out: nobody asks for them.
	ended  *simplelru.LRU[sessionID, struct{}]
	levels *simplelru.LRU[sessionID, string]
}

func newLegacySessions() *legacySessions {
	ended, _ := simplelru.NewLRU[sessionID, struct{}](maxEnded, nil) // fails if it is to hold nothing
	levels, _ := simplelru.NewLRU[sessionID, string](maxLogLevels, nil)
	return &legacySessions{streams: map[sessionID]*context.CancelFunc{}, ended: ended, levels: levels}
}

// logLevel returns the least severe level of log messages that a session wants; empty for none.
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

// addStream returns the context of a session's stream. Leave must be called when the stream ends.
func (l *legacySessions) addStream(ctx context.Context, s *seal.Session) (_ context.Context, leave func()) {
	// A new stream ends the session's previous one, so that nothing is sent twice.
	ctx, cancel := withExpiry(ctx, s.Expires)
	l.mu.Lock()
	defer l.mu.Unlock()
	if before := l.streams[s.ID]; before != nil {
		(*before)()
	}
	l.streams[s.ID] = &cancel
	if l.ended.Contains(s.ID) { // since the session was opened
		cancel()
	}
	return ctx, func() {
		cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		// A newer stream may have taken the entry, which is not this one's to remove.
		if l.streams[s.ID] == &cancel {
			delete(l.streams, s.ID)
		}
	}
}
