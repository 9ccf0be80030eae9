package admin

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// guesser tries tokens: the right one, or each time another wrong one.
type guesser struct {
	attempts *attempts
	n        int
}

var rightToken = sha256.Sum256([]byte("right")) //nolint:gochecknoglobals // a constant

func (g *guesser) next() [sha256.Size]byte {
	g.n++
	return sha256.Sum256(fmt.Append(nil, g.n))
}

func (g *guesser) header(from string, token [sha256.Size]byte) verdict {
	return g.attempts.inHeader(from, token, rightToken, time.Now())
}

func (g *guesser) form(from string, token [sha256.Size]byte) verdict {
	return g.attempts.inForm(from, token, rightToken, time.Now())
}

// Whoever shares an address with somebody who guesses is not locked out.
func TestAttempts_AlwaysCompareATokenInAHeader(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := guesser{attempts: newAttempts()}
		news := 0
		for range 1000 {
			v := g.header("a", g.next())
			if v.ok || v.wait > 0 {
				t.Fatalf("a wrong token: %+v", v)
			}
			if v.news {
				news++
			}
		}
		if news != addressAttempts {
			t.Errorf("%d of 1000 wrong tokens are news, want %d", news, addressAttempts)
		}
		if v := g.header("a", rightToken); !v.ok {
			t.Errorf("the right token from the same address: %+v", v)
		}
		if v := g.form("a", rightToken); !v.ok {
			t.Errorf("the right token in the form: %+v", v)
		}
		time.Sleep(addressInterval)
		if v := g.header("a", g.next()); !v.news {
			t.Errorf("a wrong token after the time: %+v", v)
		}
	})
}

func TestAttempts_BoundTheForm(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := guesser{attempts: newAttempts()}
		for i := range addressAttempts {
			if v := g.form("a", g.next()); v.ok || v.wait > 0 || !v.news {
				t.Fatalf("attempt %d: %+v", i, v)
			}
		}
		if v := g.form("a", rightToken); v.ok || v.wait != addressInterval {
			t.Errorf("the right one after too many, without waiting: %+v", v)
		}
		if v := g.header("a", rightToken); !v.ok {
			t.Errorf("the right one in a header: %+v", v)
		}
		if v := g.form("b", rightToken); !v.ok {
			t.Errorf("from another address: %+v", v)
		}
		time.Sleep(addressInterval)
		if v := g.form("a", rightToken); !v.ok {
			t.Errorf("the right one after the time: %+v", v)
		}
		if v := g.form("a", g.next()); v.wait > 0 || !v.news {
			t.Errorf("a wrong one after the time: %+v", v)
		}
		if v := g.form("a", g.next()); v.wait == 0 {
			t.Errorf("two after the time of one: %+v", v)
		}
	})
}

// Strangers at any number of addresses fill no log.
func TestAttempts_BoundTheLinesOfAllAddresses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := guesser{attempts: newAttempts()}
		news := 0
		begun := time.Now()
		for i := range 100_000 {
			try := g.header
			if i%2 == 0 {
				try = g.form
			}
			if try(fmt.Sprint("stranger", i), g.next()).news {
				news++
			}
			if i%1000 == 999 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		if most := allAttempts + int(time.Since(begun)/allInterval); news > most || news < allAttempts {
			t.Errorf("%d of 100 000 tokens are news, want up to %d", news, most)
		}
		if n := g.attempts.addresses.Len(); n > maxAddresses {
			t.Errorf("%d addresses are remembered", n)
		}
		if v := g.form("operator", rightToken); !v.ok {
			t.Errorf("the operator is kept out: %+v", v)
		}
	})
}

// A program that goes on with an old token guesses nothing.
func TestAttempts_DoNotRecordTheSameTokenAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := guesser{attempts: newAttempts()}
		old := sha256.Sum256([]byte("old"))
		for i := range 1000 {
			if v := g.header("a", old); v.ok || v.news != (i == 0) {
				t.Fatalf("time %d: %+v", i, v)
			}
		}
		if v := g.attempts.inHeader("a", old, old, time.Now()); !v.ok {
			t.Errorf("the old one, once it is the right one: %+v", v)
		}
	})
}

func TestSessions_AreBoundedInTimeAndNumber(t *testing.T) {
	var s sessions
	token, now := sha256.Sum256([]byte("operator")), time.Now()
	first := s.begin(token, now)
	if !s.has(first, token, now.Add(sessionLifetime-1)) || s.has(first, token, now.Add(sessionLifetime)) {
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
