package seal

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"
)

// maxSession bounds a session token, in bytes: each request of the session repeats it in a header.
const maxSession = 1024

// Session is the state of a legacy session over Streamable HTTP.
type Session struct {
	// ID is random. It distinguishes the sessions of one client.
	ID [16]byte
	// Revision is the negotiated protocol revision.
	Revision string
	// Capabilities are bits for the client's declared capabilities. Package transport defines them.
	Capabilities uint8
	// ClientName and ClientVersion are the client's name and version for the audit log. They are
	// not verified.
	ClientName, ClientVersion string
	// Variant is the name of the endpoint's variant, at most 255 bytes, or "" for the plain endpoint.
	Variant string
	// Principal is the key of the principal that opened the session.
	Principal string
	// Expires is the end of the session, to the second.
	Expires time.Time
}

// The layout of a session: a version, the capabilities, the id, the expiry in seconds since 1970, the
// lengths of the revision and of the client's name and version, and then revision, name, version and
// principal. If there is a variant, its length and its name precede the revision.
const (
	sessionVersion  = 2
	variantVersion  = 3
	sessionHeadSize = 1 + 1 + 16 + 8 + 3
)

// SealSession returns the session's token. If the token would be longer than 1024 bytes, it leaves out
// the client's name and version. If that is not enough, it returns an error. Revision and principal
// fit if they total at most 700 bytes.
func (s *Sealer) SealSession(session Session) (string, error) {
	if len(session.Revision) > math.MaxUint8 {
		return "", fmt.Errorf("session revision has %d bytes, at most %d are possible", len(session.Revision), math.MaxUint8)
	}
	if len(session.ClientName) > math.MaxUint8 || len(session.ClientVersion) > math.MaxUint8 {
		session.ClientName, session.ClientVersion = "", ""
	}
	token := s.sessions.Seal(session.encode())
	if len(token) > maxSession && session.ClientName+session.ClientVersion != "" {
		session.ClientName, session.ClientVersion = "", ""
		token = s.sessions.Seal(session.encode())
	}
	if len(token) > maxSession {
		return "", fmt.Errorf("session token has %d bytes for a principal of %d, at most %d are possible",
			len(token), len(session.Principal), maxSession)
	}
	return token, nil
}

// OpenSession returns the session in a token. The caller must check the session's principal, variant and
// expiry. For the errors, see [Reason].
func (s *Sealer) OpenSession(token string) (Session, error) {
	if len(token) > maxSession {
		return Session{}, ErrMalformed
	}
	if session, ok := s.opened.Get(token); ok {
		return session, nil
	}
	plaintext, err := s.sessions.Open(token)
	if err != nil {
		return Session{}, err
	}
	session, err := decodeSession(plaintext)
	if err == nil {
		s.opened.Add(strings.Clone(token), session) // Clone: the token is a part of a whole request header
	}
	return session, err
}

func (s *Session) encode() []byte {
	texts := s.Revision + s.ClientName + s.ClientVersion + s.Principal
	b := make([]byte, 0, sessionHeadSize+1+len(s.Variant)+len(texts))
	b = append(b, sessionVersion, s.Capabilities)
	b = append(b, s.ID[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(s.Expires.Unix()))
	b = append(b, byte(len(s.Revision)), byte(len(s.ClientName)), byte(len(s.ClientVersion)))
	if s.Variant != "" {
		b[0] = variantVersion
		b = append(append(b, byte(len(s.Variant))), s.Variant...)
	}
	return append(b, texts...)
}

func decodeSession(b []byte) (Session, error) {
	if len(b) < sessionHeadSize || b[0] != sessionVersion && b[0] != variantVersion {
		return Session{}, ErrMalformed
	}
	capabilities, id, expires, lengths := b[1], b[2:18], b[18:26], b[26:sessionHeadSize]
	text, variant := string(b[sessionHeadSize:]), ""
	if b[0] == variantVersion {
		if text == "" || text[0] == 0 || len(text) <= int(text[0]) {
			return Session{}, ErrMalformed
		}
		variant, text = text[1:][:text[0]], text[1:][text[0]:]
	}
	name := int(lengths[0])
	version := name + int(lengths[1])
	principal := version + int(lengths[2])
	if principal > len(text) {
		return Session{}, ErrMalformed
	}
	return Session{
		ID:            [16]byte(id),
		Revision:      text[:name],
		Capabilities:  capabilities,
		ClientName:    text[name:version],
		ClientVersion: text[version:principal],
		Variant:       variant,
		Principal:     text[principal:],
		Expires:       time.Unix(int64(binary.BigEndian.Uint64(expires)), 0).UTC(),
	}, nil
}

// The layout of a cursor: a version, the hashes of the method and of the principal's key, and the
// exposed name.
const (
	cursorVersion  = 1
	bindingSize    = 16
	cursorHeadSize = 1 + 2*bindingSize
)

// SealCursor returns the cursor of a page that begins after an exposed name, for one list method and one
// principal. The cursor contains a name and not an offset, so it stays valid when the catalog changes
// between two pages. For a name of up to 256 bytes, the cursor has at most 512 bytes.
func (s *Sealer) SealCursor(method, principalKey, after string) string {
	plaintext := make([]byte, 0, cursorHeadSize+len(after))
	plaintext = append(plaintext, cursorVersion)
	plaintext = append(plaintext, binding(method)...)
	plaintext = append(plaintext, binding(principalKey)...)
	plaintext = append(plaintext, after...)
	return s.cursors.Seal(plaintext)
}

// OpenCursor returns the name after which the cursor's page begins. A cursor of another method is
// malformed. For the errors, see [Reason].
func (s *Sealer) OpenCursor(method, principalKey, token string) (after string, err error) {
	plaintext, err := s.cursors.Open(token)
	if err != nil {
		return "", err
	}
	if len(plaintext) < cursorHeadSize || plaintext[0] != cursorVersion {
		return "", ErrMalformed
	}
	bindings, name := plaintext[1:cursorHeadSize], plaintext[cursorHeadSize:]
	// Check the method first: for a cursor of another list, "wrong principal" would mislead.
	if string(bindings[:bindingSize]) != string(binding(method)) {
		return "", ErrMalformed
	}
	if string(bindings[bindingSize:]) != string(binding(principalKey)) {
		return "", errWrongPrincipal
	}
	return string(name), nil
}

// binding returns a hash of 16 bytes of a value to which a token is bound.
func binding(to string) []byte {
	sum := sha256.Sum256([]byte(to))
	return sum[:bindingSize]
}
