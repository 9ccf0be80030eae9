package admin

import (
	"crypto/sha256"
	"testing"
	"time"
)

func TestSessions_AreBoundedInTimeAndNumber(t *testing.T) {
	var s sessions
	token, now := sha256.Sum256([]byte("operator")), time.Now()
	first := s.begin(token, now)
	if !s.has(first, token, now.Add(sessionBound-1)) || s.has(first, token, now.Add(sessionBound)) {
		t.Error("a session does not last for 12 hours")
	}
	if s.has(first, [sha256.Size]byte{}, now) || s.has("", token, now) {
		t.Error("a session is one of another token, or of none")
	}
	var last string
	for i := range maxSessions {
		last = s.begin(token, now.Add(time.Duration(i+1)))
	}
	if s.has(first, token, now) || !s.has(last, token, now) || len(s.all) != maxSessions {
		t.Errorf("%d sessions: the oldest does not give way", len(s.all))
	}
	s.end(last)
	if s.has(last, token, now) {
		t.Error("a session that has ended")
	}
}
