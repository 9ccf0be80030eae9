package transport

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/promptweir/promptweir/gateway/seal"
)

const (
	// sweepInterval is how often expired sessions are forgotten.
	sweepInterval = time.Minute
	// maxEnded bounds the sessions that are remembered as ended. Beyond it one is forgotten, and
	// its id valid again.
	maxEnded = 100_000
	// maxLogLevels bounds the sessions whose log level is known. Beyond it one is forgotten, and
	// gets no more log messages.
	maxLogLevels = 100_000
)

// sessionID is the random id of a sealed session.
type sessionID = [16]byte

// legacySessions is what this replica knows of Streamable HTTP's legacy sessions beyond their
// sealed ids: which have ended before they expired, the stream of each and the level of log
// messages that each wants. The zero value is ready.
type legacySessions struct {
	mu      sync.Mutex              // guards what follows
	ended   map[sessionID]time.Time // when each would have expired
	swept   time.Time               // when expired sessions were last forgotten
	streams map[sessionID]*context.CancelFunc
	levels  map[sessionID]sessionLevel
}

type sessionLevel struct {
	level        string
	set, expires time.Time
}

// logLevel returns the least severe level of log messages that a session wants; empty for none.
func (l *legacySessions) logLevel(id sessionID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.levels[id].level
}

// setLogLevel sets a session's level. It returns when that was, later than before whatever another
// replica's clock says, and whether it made a difference.
func (l *legacySessions) setLogLevel(id sessionID, expires time.Time, level string) (set time.Time, changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.levels[id]
	if set = time.Now(); !set.After(before.set) {
		set = before.set.Add(1)
	}
	l.setLogLevelLocked(id, sessionLevel{level, set, expires})
	return set, before.level != level
}

// adoptLogLevel is setLogLevel for what another replica has done, maybe before what is known.
func (l *legacySessions) adoptLogLevel(id sessionID, told sessionLevel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Levels and ends come by topics of their own, in any order.
	if _, ended := l.ended[id]; !ended && told.set.After(l.levels[id].set) {
		l.setLogLevelLocked(id, told)
	}
}

func (l *legacySessions) setLogLevelLocked(id sessionID, level sessionLevel) {
	if l.levels == nil {
		l.levels = map[sessionID]sessionLevel{}
	}
	l.sweepLocked()
	makeRoom(l.levels, maxLogLevels)
	l.levels[id] = level
}

// makeRoom removes one element of a map that is full.
func makeRoom[V any](m map[sessionID]V, most int) {
	if len(m) < most {
		return
	}
	for one := range m {
		delete(m, one)
		return
	}
}

// sweepLocked forgets, from time to time, what has expired.
func (l *legacySessions) sweepLocked() {
	now := time.Now()
	if now.Sub(l.swept) <= sweepInterval {
		return
	}
	l.swept = now
	maps.DeleteFunc(l.ended, func(_ sessionID, expires time.Time) bool { return expires.Before(now) })
	maps.DeleteFunc(l.levels, func(_ sessionID, level sessionLevel) bool { return level.expires.Before(now) })
}

func (l *legacySessions) hasEnded(id sessionID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.ended[id]
	return ok
}

// end ends a session and its stream.
func (l *legacySessions) end(id sessionID, expires time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == nil {
		l.ended = map[sessionID]time.Time{}
	}
	l.sweepLocked()
	delete(l.levels, id)
	makeRoom(l.ended, maxEnded)
	l.ended[id] = expires
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
	if l.streams == nil {
		l.streams = map[sessionID]*context.CancelFunc{}
	}
	if before := l.streams[s.ID]; before != nil {
		(*before)()
	}
	l.streams[s.ID] = &cancel
	if _, ended := l.ended[s.ID]; ended { // since the session was opened
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
