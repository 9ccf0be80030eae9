package admin

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestSignIns_AreBoundedInTimeAndNumber(t *testing.T) {
	s := newSignIns()
	token, now := sha256.Sum256([]byte("operator")), time.Now()
	first := s.begin(token, now)
	if !s.has(first, token, now.Add(sessionLifetime-1)) || s.has(first, token, now.Add(sessionLifetime)) {
		t.Error("a session does not last for 12 hours")
	}
	if s.has(first, [sha256.Size]byte{}, now) || s.has("", token, now) {
		t.Error("a session is one of another token, or of none")
	}
	var last string
	for range maxSessions {
		s.has(first, token, now) // its use does not keep it
		last = s.begin(token, now)
	}
	if s.has(first, token, now) || !s.has(last, token, now) || s.sessions.Len() != maxSessions {
		t.Errorf("%d sessions: the oldest does not give way", s.sessions.Len())
	}
	s.end(last)
	if s.has(last, token, now) {
		t.Error("a session that has ended")
	}
}

func TestSignIns_RedeemACodeOnce(t *testing.T) {
	s, now := newSignIns(), time.Now()
	first, second := s.newCode(now), s.newCode(now)
	for _, step := range []struct {
		name, code string
		after      time.Duration
		want       bool
	}{
		{"none", "", 0, false},
		{"an earlier one", first, 0, false},
		{"in time", second, linkLifetime - 1, true},
		{"again", second, linkLifetime - 1, false},
	} {
		upstreamtest.Equal(t, step.want, s.redeem(step.code, now.Add(step.after)), "%s", step.name)
	}
	if s.redeem(s.newCode(now), now.Add(linkLifetime)) {
		t.Error("a code that has expired signs in")
	}
}
