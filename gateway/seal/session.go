package seal

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
	"strings"
	"sync/atomic"
	"time"
)

// MaxSession bounds a session's token, which travels as a header of every request.
const MaxSession = 1024

// Session is what the gateway has to know again about a client that opened a legacy session.
type Session struct {
	// ID is random: it makes a session unlike any other of the same client.
	ID [16]byte
	// Revision is the protocol revision that the handshake settled on.
	Revision string
	// Elicitation, Sampling and Roots are the capabilities that the client declared, and the others parts of them.
	Elicitation, Sampling, Roots    bool
	ElicitationForm, ElicitationURL bool
	SamplingContext, SamplingTools  bool
	// Principal is the key of whoever opened the session. It is for the caller to compare.
	Principal string
	// Expires is when the session ends, to the second. It is for the caller to compare.
	Expires time.Time
}

// The layout of a session: a version, the capabilities, the id, the expiry in seconds since 1970, the
// length of the revision, the revision and the principal.
const (
	sessionVersion  = 1
	sessionHeadSize = 1 + 1 + 16 + 8 + 1
)

// The capabilities of a session, a bit each.
const (
	bitElicitation = 1 << iota
	bitSampling
	bitRoots
	bitElicitationForm
	bitElicitationURL
	bitSamplingContext
	bitSamplingTools
	bitsKnown = 1<<iota - 1
)

// SealSession returns the session's token, or an error where that would be longer than [MaxSession]: there
// is room for a revision and a principal of 700 bytes in all.
func (s *Sealer) SealSession(session Session) (string, error) {
	if len(session.Revision) > math.MaxUint8 {
		return "", fmt.Errorf("session revision of %d bytes: at most %d fit", len(session.Revision), math.MaxUint8)
	}
	token := s.sessions.Seal(session.encode())
	if len(token) > MaxSession {
		return "", fmt.Errorf("session token of %d bytes for a principal of %d: at most %d may be sent",
			len(token), len(session.Principal), MaxSession)
	}
	return token, nil
}

// OpenSession returns the session in a token, or [ErrMalformed] or [ErrExpiredKey]. Whether it is the
// caller's, and not over, is still to be checked.
func (s *Sealer) OpenSession(token string) (Session, error) {
	if len(token) > MaxSession {
		return Session{}, ErrMalformed
	}
	slot := s.opened.slot(token)
	if known := slot.Load(); known != nil && known.token == token {
		return known.session, nil
	}
	plaintext, err := s.sessions.Open(token)
	if err != nil {
		return Session{}, err
	}
	session, err := decodeSession(plaintext)
	if err == nil {
		slot.Store(&openedSession{strings.Clone(token), session})
	}
	return session, err
}

// openedSessions are some of the tokens that were opened before: a client sends its own with each request, and to find it
// here takes a tenth of the time. Where two fall into one slot, the later one stays.
type openedSessions struct {
	seed  maphash.Seed
	slots [4096]atomic.Pointer[openedSession]
}

type openedSession struct {
	token   string
	session Session
}

func (o *openedSessions) slot(token string) *atomic.Pointer[openedSession] {
	return &o.slots[maphash.String(o.seed, token)%uint64(len(o.slots))]
}

func (s *Session) encode() []byte {
	b := make([]byte, 0, sessionHeadSize+len(s.Revision)+len(s.Principal))
	b = append(b, sessionVersion, s.capabilities())
	b = append(b, s.ID[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(s.Expires.Unix()))
	b = append(b, byte(len(s.Revision)))
	b = append(b, s.Revision...)
	return append(b, s.Principal...)
}

func decodeSession(b []byte) (Session, error) {
	if len(b) < sessionHeadSize || b[0] != sessionVersion || b[1] > bitsKnown {
		return Session{}, ErrMalformed
	}
	capabilities, id, expires, text := b[1], b[2:18], b[18:26], string(b[sessionHeadSize:])
	revisionSize := int(b[sessionHeadSize-1])
	if revisionSize > len(text) {
		return Session{}, ErrMalformed
	}
	s := Session{
		ID:        [16]byte(id),
		Revision:  text[:revisionSize],
		Principal: text[revisionSize:],
		Expires:   time.Unix(int64(binary.BigEndian.Uint64(expires)), 0).UTC(),
	}
	for _, flag := range s.flags() {
		*flag.is = capabilities&flag.bit != 0
	}
	return s, nil
}

// flags are the capabilities with their bits.
func (s *Session) flags() []flag {
	return []flag{
		{bitElicitation, &s.Elicitation},
		{bitSampling, &s.Sampling},
		{bitRoots, &s.Roots},
		{bitElicitationForm, &s.ElicitationForm},
		{bitElicitationURL, &s.ElicitationURL},
		{bitSamplingContext, &s.SamplingContext},
		{bitSamplingTools, &s.SamplingTools},
	}
}

type flag struct {
	bit byte
	is  *bool
}

func (s *Session) capabilities() (bits byte) {
	for _, flag := range s.flags() {
		if *flag.is {
			bits |= flag.bit
		}
	}
	return bits
}
