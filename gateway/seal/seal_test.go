package seal_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func key(fill byte) [32]byte { return [32]byte(bytes.Repeat([]byte{fill}, 32)) }

func sealer(t testing.TB, keys ...[32]byte) *seal.Sealer {
	t.Helper()
	s, err := seal.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSeal_IsEqualOnReplicas(t *testing.T) {
	one, other := sealer(t, key(1)).For("page"), sealer(t, key(1), key(2)).For("page")
	for _, content := range []string{"", "a", strings.Repeat("long ", 1000)} {
		token := one.Seal([]byte(content))
		upstreamtest.Equal(t, token, other.Seal([]byte(content)), "Seal(%q) on another replica", content)
		if opened, err := other.Open(token); err != nil || string(opened) != content {
			t.Errorf("Open(Seal(%q)) = %q, %v", content, opened, err)
		}
	}
}

func TestSeal_NoncesDifferByContent(t *testing.T) {
	box := sealer(t, key(1)).For("page")
	seen := map[string]string{}
	for _, content := range []string{"", "a", "b", "ab", "ba", "\x00", "\x00\x00"} {
		raw, err := base64.RawURLEncoding.DecodeString(box.Seal([]byte(content)))
		if err != nil {
			t.Fatal(err)
		}
		nonce := string(raw[8:20])
		if twin, ok := seen[nonce]; ok {
			t.Errorf("%q and %q share the nonce %x", content, twin, nonce)
		}
		seen[nonce] = content
	}
}

func TestOpen_RequiresTheKeyAndThePurpose(t *testing.T) {
	token := sealer(t, key(1)).For("page").Seal([]byte("content"))
	tests := []struct {
		name string
		box  *seal.Box
		want error
	}{
		{"the key alone", sealer(t, key(1)).For("page"), nil},
		{"a newer key in front", sealer(t, key(2), key(1)).For("page"), nil},
		{"the key is gone", sealer(t, key(2)).For("page"), seal.ErrExpiredKey},
		{"a fresh ring", sealer(t).For("page"), seal.ErrExpiredKey},
		{"another purpose", sealer(t, key(1)).For("pages"), seal.ErrMalformed},
		{"no purpose", sealer(t, key(1)).For(""), seal.ErrMalformed},
	}
	for _, test := range tests {
		if opened, err := test.box.Open(token); !errors.Is(err, test.want) {
			t.Errorf("%s: Open = %q, %v, want %v", test.name, opened, err, test.want)
		}
	}
}

func TestSeal_UsesTheFirstKey(t *testing.T) {
	token := sealer(t, key(2), key(1)).For("page").Seal([]byte("content"))
	if _, err := sealer(t, key(2)).For("page").Open(token); err != nil {
		t.Errorf("Open by the first key: %v", err)
	}
	if _, err := sealer(t, key(1)).For("page").Open(token); !errors.Is(err, seal.ErrExpiredKey) {
		t.Errorf("Open by the second key: %v, want %v", err, seal.ErrExpiredKey)
	}
}

func TestNew_RefusesAKeyOfZeros(t *testing.T) {
	if _, err := seal.New([][32]byte{key(1), {}}); err == nil || !strings.Contains(err.Error(), "key 2 of 2") {
		t.Errorf("New with a key of zeros: %v, want an error that names key 2 of 2", err)
	}
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// No string that differs from a token by one character opens: not one with another bit, not one with other unused bits in the
// last character, and not one that lenient base64 would accept.
func TestOpen_AcceptsExactlyOneString(t *testing.T) {
	box := sealer(t, key(1)).For("page")
	for _, content := range []string{"", "a", "ab"} { // every remainder of 3: every number of unused bits
		token := box.Seal([]byte(content))
		refuse := func(change, token string) {
			t.Helper()
			if opened, err := box.Open(token); !errors.Is(err, seal.ErrMalformed) {
				t.Errorf("%s: Open(%q) = %q, %v, want %v", change, token, opened, err, seal.ErrMalformed)
			}
		}
		for i := range token {
			for _, c := range alphabet {
				if byte(c) != token[i] {
					refuse("changed", token[:i]+string(c)+token[i+1:])
				}
			}
			for _, c := range "A=\n\r \t+/.%\x00" {
				refuse("inserted", token[:i]+string(c)+token[i:])
			}
			refuse("shortened", token[:i]+token[i+1:])
			refuse("cut", token[:i])
		}
		for _, tail := range []string{"=", "==", "===", "A", "AA", "AAAA", "\n", "\r\n", " ", token} {
			refuse("lengthened", token+tail)
		}
	}
}

func FuzzOpen(f *testing.F) {
	s := sealer(f, key(1), key(2))
	box := s.For("page")
	for _, seed := range []string{
		"", "bogus", strings.Repeat("A", 48), box.Seal(nil), box.Seal([]byte("content")),
		sealer(f, key(3)).For("page").Seal([]byte("content")),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		opened, err := box.Open(token)
		switch {
		case err != nil && seal.Reason(err) == "":
			t.Errorf("Open(%q): %v, an error without a reason", token, err)
		case err == nil && box.Seal(opened) != token:
			t.Errorf("Open(%q) = %q, which is sealed as %q", token, opened, box.Seal(opened))
		}
		if _, err := s.OpenCursor("prompts/list", "user:alice", token); err == nil {
			t.Errorf("OpenCursor(%q) took a token that it did not make", token)
		}
		if _, err := s.OpenSession(token); err == nil {
			t.Errorf("OpenSession(%q) took a token that it did not make", token)
		}
	})
}

func TestMAC_IsEqualOnReplicasAndForOnePurpose(t *testing.T) {
	hash := func(purpose, value string, keys ...[32]byte) string {
		return string(sealer(t, keys...).MAC(purpose).AppendHex(nil, []byte(value)))
	}
	one := hash("arguments", "a", key(1))
	if len(one) != 64 || one != hash("arguments", "a", key(1), key(2)) {
		t.Errorf("%s, on a replica that also opens by another key %s", one, hash("arguments", "a", key(1), key(2)))
	}
	for what, other := range map[string]string{
		"another key": hash("arguments", "a", key(2), key(1)), "another purpose": hash("others", "a", key(1)),
		"another value": hash("arguments", "b", key(1)), "no value": hash("arguments", "", key(1)),
	} {
		if other == one {
			t.Errorf("%s has the same hash", what)
		}
	}
}

const listing = "prompts/list"

func TestOpenCursor_RequiresTheMethodAndThePrincipal(t *testing.T) {
	s := sealer(t, key(1))
	cursor := s.SealCursor(listing, "user:alice", "billing.review_x")
	session, err := s.SealSession(seal.Session{})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name              string
		sealer            *seal.Sealer
		method, principal string
		token             string
		after             string
		reason            string
	}{
		{"as it was sealed", s, listing, "user:alice", cursor, "billing.review_x", ""},
		{"on a replica with a newer key", sealer(t, key(2), key(1)), listing, "user:alice", cursor, "billing.review_x", ""},
		{"after nothing", s, listing, "user:alice", s.SealCursor(listing, "user:alice", ""), "", ""},
		{"somebody else", s, listing, "user:bob", cursor, "", "wrong_principal"},
		{"nobody", s, listing, "", cursor, "", "wrong_principal"},
		{"another method", s, "tools/list", "user:alice", cursor, "", "malformed"},
		{"another method and somebody else", s, "tools/list", "user:bob", cursor, "", "malformed"},
		{"a session", s, listing, "user:alice", session, "", "malformed"},
		{"another purpose", s, listing, "user:alice", s.For("request state").Seal([]byte("x")), "", "malformed"},
		{"a version yet to come", s, listing, "user:alice", s.For("cursor").Seal([]byte{9}), "", "malformed"},
		{"no cursor", s, listing, "user:alice", "", "", "malformed"},
		{"an offset", s, listing, "user:alice", "100", "", "malformed"},
		{"a long invention", s, listing, "user:alice", strings.Repeat("bogus", 20), "", "malformed"},
		{"the key is gone", sealer(t, key(2)), listing, "user:alice", cursor, "", "expired_key"},
	}
	for _, test := range tests {
		after, err := test.sealer.OpenCursor(test.method, test.principal, test.token)
		if after != test.after || seal.Reason(err) != test.reason || (err == nil) != (test.reason == "") {
			t.Errorf("%s: OpenCursor(%q, %q, %q) = %q, %v, want %q, %q",
				test.name, test.method, test.principal, test.token, after, err, test.after, test.reason)
		}
	}
}

func TestSealCursor_IsShortAfterTheLongestName(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	if cursor := sealer(t, key(1)).SealCursor(long, long, long[:256]); len(cursor) > 512 {
		t.Errorf("SealCursor after a name of 256 bytes: %d bytes, want at most 512", len(cursor))
	}
}

func TestCursor_AllocatesLittle(t *testing.T) {
	s := sealer(t, key(1))
	cursor := s.SealCursor(listing, "user:alice", "billing.review_x")
	for _, test := range []struct {
		name string
		want float64 // at most
		do   func()
	}{
		{"SealCursor", 5, func() { s.SealCursor(listing, "user:alice", "billing.review_x") }},
		{"OpenCursor", 2, func() { _, _ = s.OpenCursor(listing, "user:alice", cursor) }},
	} {
		if got := upstreamtest.Allocs(t, test.do); got > test.want {
			t.Errorf("%s allocates %v times, want at most %v", test.name, got, test.want)
		}
	}
}
