package transport

import (
	"context"
	"encoding/binary"
	"time"
)

// Replicas are the replicas of a gateway, this one included.
type Replicas interface {
	// Announce tells all of them of a message under a topic, those too that are started within a day. It must not take long.
	Announce(topic string, message []byte)
	// Hear has a function called with what is announced under a topic, maybe more than once.
	Hear(topic string, heard func(message []byte))

	// Name returns that of this replica.
	Name() string
	// Tell sends a message to one replica, or to all others if to is empty. Nobody confirms that it arrives.
	Tell(to, topic string, message []byte)
	// Ask sends a message to one replica and returns its answer. An error means that there is none.
	Ask(ctx context.Context, to, topic string, message []byte) (answer []byte, err error)
	// Serve has a function called with what another replica sends under a topic, and returns the answer for one that asks.
	Serve(topic string, f func(ctx context.Context, message []byte) (answer []byte))
}

// Topics of what replicas announce about sessions of Streamable HTTP. The level of log messages has one of its own, so that clients
// that change it often do not push out which sessions have ended.
const (
	topicEnded = "session ended"
	topicLevel = "session level"
)

// hearReplicas has this replica do what is done to a session at another one.
func (t *Transport) hearReplicas() {
	t.replicas.Hear(topicEnded, func(message []byte) {
		if id, expires, rest, ok := readSession(message); ok && len(rest) == 0 && expires.After(time.Now()) {
			t.endHere(id, expires)
		}
	})
	t.replicas.Hear(topicLevel, func(message []byte) {
		id, expires, rest, ok := readSession(message)
		set, level, isLevel := readLevel(rest)
		if ok && isLevel && expires.After(time.Now()) {
			t.sessions.hearLogLevel(id, sessionLevel{level, set, expires})
		}
	})
}

// endSession ends a session at all replicas.
func (t *Transport) endSession(id sessionID, expires time.Time) {
	t.endHere(id, expires)
	if t.replicas != nil {
		t.replicas.Announce(topicEnded, encodeSession(id, expires))
	}
}

// endHere ends a session at this replica.
func (t *Transport) endHere(id sessionID, expires time.Time) {
	t.sessions.end(id, expires)
	t.replies.end(id)
}

// setLogLevel sets the level of a session at all replicas.
func (t *Transport) setLogLevel(id sessionID, expires time.Time, level string) {
	if set, changed := t.sessions.setLogLevel(id, expires, level); changed && t.replicas != nil {
		message := binary.BigEndian.AppendUint64(encodeSession(id, expires), uint64(set.UnixNano()))
		t.replicas.Announce(topicLevel, append(message, level...))
	}
}

func encodeSession(id sessionID, expires time.Time) []byte {
	return binary.BigEndian.AppendUint64(id[:], uint64(expires.Unix()))
}

// readSession reads what [encodeSession] has written, and returns what follows it.
func readSession(message []byte) (id sessionID, expires time.Time, rest []byte, ok bool) {
	const size = len(sessionID{}) + 8
	if len(message) < size {
		return sessionID{}, time.Time{}, nil, false
	}
	seconds := binary.BigEndian.Uint64(message[len(id):])
	return sessionID(message), time.Unix(int64(seconds), 0), message[size:], true
}

// readLevel reads a level, and when it was set.
func readLevel(message []byte) (set time.Time, level string, ok bool) {
	if len(message) < 8 {
		return time.Time{}, "", false
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(message))), string(message[8:]), true
}
