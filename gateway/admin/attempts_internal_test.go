package admin

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// guesser tries tokens, each another one unless it is given.
type guesser struct {
	*attempts

	n int
}

var rightToken = sha256.Sum256([]byte("right")) //nolint:gochecknoglobals // a constant

func (g *guesser) right(from string) verdict {
	return g.try(from, rightToken, rightToken, time.Now())
}

func (g *guesser) wrong(from string) verdict {
	g.n++
	return g.try(from, sha256.Sum256(fmt.Append(nil, g.n)), rightToken, time.Now())
}

func TestAttempts_BoundsThoseOfAnAddress(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := guesser{attempts: newAttempts()}
		for i := range addressAttempts {
			if v := g.wrong("a"); v.ok || v.wait > 0 || !v.news {
				t.Fatalf("attempt %d: %+v", i, v)
			}
		}
		if v := g.wrong("a"); v.wait != addressInterval || !v.news {
			t.Errorf("one too many: %+v", v)
		}
		if v := g.right("a"); v.ok || v.wait != addressInterval || v.news {
			t.Errorf("the right one after that, without waiting: %+v", v)
		}
		if v := g.right("b"); !v.ok {
			t.Errorf("from elsewhere: %+v", v)
		}
		time.Sleep(addressInterval)
		if v := g.right("a"); !v.ok {
			t.Errorf("the right one after the time: %+v", v)
		}
		if v := g.wrong("a"); v.wait > 0 || !v.news {
			t.Errorf("after the time: %+v", v)
		}
		if v := g.wrong("a"); v.wait == 0 {
			t.Errorf("two after the time of one: %+v", v)
		}
	})
}

// Strangers at any number of addresses are bounded together, and keep nobody out who was in before.
func TestAttempts_BoundsThoseOfAllAddresses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := guesser{attempts: newAttempts()}
		if v := g.right("operator"); !v.ok {
			t.Fatalf("%+v", v)
		}
		compared, news := 0, 0
		begun := time.Now()
		for i := range 100_000 {
			v := g.wrong(fmt.Sprint("stranger", i))
			if v.wait == 0 {
				compared++
			}
			if v.news {
				news++
			}
			if i%1000 == 999 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		if most := allAttempts + int(time.Since(begun)/allInterval); compared > most || compared < allAttempts || news > 2*most {
			t.Errorf("%d of 100 000 tokens were compared, want up to %d; %d are news", compared, most, news)
		}
		if g.addresses.Len() > maxAddresses {
			t.Errorf("%d addresses are remembered", g.addresses.Len())
		}
		for g.wrong("one more").wait == 0 { // until there are none left
		}
		if v := g.right("somebody new"); v.ok {
			t.Error("somebody new is not bounded")
		}
		if v := g.right("operator"); !v.ok {
			t.Errorf("the operator is kept out: %+v", v)
		}
		if v := g.wrong("operator"); v.wait > 0 {
			t.Errorf("a mistake of the operator: %+v", v)
		}
	})
}

// A program that goes on with an old token guesses nothing.
func TestAttempts_DoNotCountTheSameTokenAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := guesser{attempts: newAttempts()}
		old := sha256.Sum256([]byte("old"))
		for i := range 1000 {
			if v := g.try("a", old, rightToken, time.Now()); v.ok || v.wait > 0 || v.news != (i == 0) {
				t.Fatalf("time %d: %+v", i, v)
			}
		}
		if v := g.right("a"); !v.ok {
			t.Errorf("the right one beside it: %+v", v)
		}
		if v := g.try("a", old, old, time.Now()); !v.ok {
			t.Errorf("the old one, once it is the right one: %+v", v)
		}
	})
}
