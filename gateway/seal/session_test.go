package seal_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func alices() seal.Session {
	return seal.Session{
		ID:           [16]byte{1, 2, 3},
		Revision:     "2025-11-25",
		Capabilities: 1<<0 | 1<<2,
		Principal:    "user:alice",
		Expires:      time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC),
	}
}

func TestOpenSession_ReturnsWhatWasSealed(t *testing.T) {
	changed := func(change func(*seal.Session)) seal.Session {
		session := alices()
		change(&session)
		return session
	}
	s := sealer(t, key(1))
	tokens := map[string]bool{}
	for _, session := range []seal.Session{
		alices(),
		{Expires: time.Time{}.UTC()},
		changed(func(s *seal.Session) { s.Revision = "" }),
		changed(func(s *seal.Session) { s.Revision = strings.Repeat("r", 255) }),
		changed(func(s *seal.Session) { s.Capabilities ^= 1 << 0 }),
		changed(func(s *seal.Session) { s.Capabilities ^= 1 << 7 }),
		changed(func(s *seal.Session) { s.ClientName = strings.Repeat("n", 255) }),
		changed(func(s *seal.Session) { s.ClientName, s.ClientVersion = "n", strings.Repeat("v", 255) }),
		changed(func(s *seal.Session) { s.Variant = "flat" }),
		changed(func(s *seal.Session) { s.Principal = strings.Repeat("p", 693) }), // whose token has 1024 bytes
		changed(func(s *seal.Session) { s.Principal, s.ClientName = strings.Repeat("p", 692), "n" }),
		changed(func(s *seal.Session) { s.Expires = s.Expires.Add(time.Second) }),
	} {
		token, err := s.SealSession(session)
		if err != nil {
			t.Errorf("SealSession(%+v): %v", session, err)
			continue
		}
		if len(token) > 1024 || strings.Trim(token, alphabet) != "" {
			t.Errorf("SealSession(%+v) = %q of %d bytes, want at most 1024 of visible ASCII", session, token, len(token))
		}
		opened, err := s.OpenSession(token)
		if diff := cmp.Diff(session, opened); err != nil || diff != "" {
			t.Errorf("OpenSession(SealSession(…)): %v (-want +got):\n%s", err, diff)
		}
		tokens[token] = true
	}
	upstreamtest.Equal(t, 12, len(tokens), "different tokens of 12 sessions")
}

func TestSealSession_LeavesOutTheClientWhereItDoesNotFit(t *testing.T) {
	for _, session := range []seal.Session{
		{Principal: strings.Repeat("p", 690), ClientName: "n", ClientVersion: strings.Repeat("v", 64)},
		{Principal: "p", ClientName: strings.Repeat("n", 256)},
	} {
		token, err := sealer(t, key(1)).SealSession(session)
		if err != nil {
			t.Fatal(err)
		}
		want := seal.Session{Principal: session.Principal, Expires: session.Expires}
		if opened, err := sealer(t, key(1)).OpenSession(token); err != nil || cmp.Diff(want, opened) != "" {
			t.Errorf("%v %s", err, cmp.Diff(want, opened))
		}
	}
}

func TestSealSession_RefusesWhatDoesNotFit(t *testing.T) {
	for _, session := range []seal.Session{
		{Principal: strings.Repeat("p", 706)},
		{Revision: strings.Repeat("r", 256)},
	} {
		if token, err := sealer(t, key(1)).SealSession(session); err == nil {
			t.Errorf("SealSession(%+v) = %q, want an error", session, token)
		}
	}
}

func TestOpenSession_RefusesEverythingElse(t *testing.T) {
	s := sealer(t, key(1))
	token, err := s.SealSession(alices())
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		sealer *seal.Sealer
		token  string
		want   error
	}{
		{"as it was sealed", s, token, nil},
		{"on a replica with a newer key", sealer(t, key(2), key(1)), token, nil},
		{"the key is gone", sealer(t, key(2)), token, seal.ErrExpiredKey},
		{"a cursor", s, s.SealCursor("prompts/list", "user:alice", "x"), seal.ErrMalformed},
		{"nothing", s, "", seal.ErrMalformed},
		{"longer than any session", s, s.For("session").Seal(make([]byte, 1024)), seal.ErrMalformed},
		{"a version yet to come", s, s.For("session").Seal(append([]byte{4}, make([]byte, 28)...)), seal.ErrMalformed},
		{"a variant without a letter", s, s.For("session").Seal(append([]byte{3}, make([]byte, 29)...)), seal.ErrMalformed},
		{"a variant that is cut off", s, s.For("session").Seal(append([]byte{3}, append(make([]byte, 28), 2, 'f')...)), seal.ErrMalformed},
		{"a revision that is cut off", s, s.For("session").Seal(append([]byte{2}, append(make([]byte, 27), 1)...)), seal.ErrMalformed},
	}
	for _, test := range tests {
		if opened, err := test.sealer.OpenSession(test.token); !errors.Is(err, test.want) {
			t.Errorf("%s: OpenSession(%q) = %+v, %v, want %v", test.name, test.token, opened, err, test.want)
		}
	}
}

// It makes no difference whether a token was opened before, and which others were since.
func TestOpenSession_CacheChangesNothing(t *testing.T) {
	s := sealer(t, key(1))
	var tokens []string
	for i := range 10_000 {
		session := alices()
		session.ID[0], session.ID[1] = byte(i), byte(i>>8)
		token, err := s.SealSession(session)
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	for range 2 {
		for i, token := range tokens {
			for range 2 {
				opened, err := s.OpenSession(token)
				if err != nil || opened.ID[0] != byte(i) || opened.ID[1] != byte(i>>8) || opened.Principal != "user:alice" {
					t.Fatalf("token %d opens as %+v, %v", i, opened, err)
				}
			}
		}
	}
	known := tokens[0]
	upstreamtest.Equal(t, 0, testing.AllocsPerRun(100, func() { _, _ = s.OpenSession(known) }), "allocations of opening a token again")
	if _, err := sealer(t, key(2)).OpenSession(known); !errors.Is(err, seal.ErrExpiredKey) {
		t.Errorf("another key's sealer: %v", err)
	}
}
