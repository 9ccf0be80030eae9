package seal_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

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

func TestReason_IsEmptyForOtherErrors(t *testing.T) {
	if got := seal.Reason(fmt.Errorf("open the cursor: %w", seal.ErrExpiredKey)); got != "expired_key" {
		t.Errorf("Reason of a wrapped error = %q, want expired_key", got)
	}
	for _, err := range []error{nil, errors.New("another")} {
		if got := seal.Reason(err); got != "" {
			t.Errorf("Reason(%v) = %q, want none", err, got)
		}
	}
}

func TestSealCursor_IsShortAfterTheLongestName(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	if cursor := sealer(t, key(1)).SealCursor(long, long, long[:256]); len(cursor) > 512 {
		t.Errorf("SealCursor after a name of 256 bytes: %d bytes, want at most 512", len(cursor))
	}
}

// Any bytes that are sealed as a cursor either do not open as one, or seal to the same token again.
func FuzzCursor(f *testing.F) {
	s := sealer(f, key(1))
	box := s.For("cursor")
	sealed, err := box.Open(s.SealCursor(listing, "user:alice", "billing.review_x"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(nil))
	f.Add([]byte{1})
	f.Add(sealed)
	f.Add(sealed[:33])
	f.Fuzz(func(t *testing.T, plaintext []byte) {
		token := box.Seal(plaintext)
		after, err := s.OpenCursor(listing, "user:alice", token)
		if err != nil && seal.Reason(err) == "" {
			t.Errorf("OpenCursor of %q: %v, an error without a reason", plaintext, err)
		}
		if err == nil && s.SealCursor(listing, "user:alice", after) != token {
			t.Errorf("OpenCursor of %q = %q, which is sealed as another token", plaintext, after)
		}
	})
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

// BenchmarkSealCursor makes the cursor of a page: 5 allocations.
func BenchmarkSealCursor(b *testing.B) {
	s := sealer(b, key(1))
	b.ReportAllocs()
	for b.Loop() {
		s.SealCursor(listing, "user:alice", "billing.review_x")
	}
}

// BenchmarkOpenCursor reads one: 2 allocations.
func BenchmarkOpenCursor(b *testing.B) {
	s := sealer(b, key(1))
	cursor := s.SealCursor(listing, "user:alice", "billing.review_x")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.OpenCursor(listing, "user:alice", cursor); err != nil {
			b.Fatal(err)
		}
	}
}
