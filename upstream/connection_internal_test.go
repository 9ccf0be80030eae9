package upstream

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
)

// A clock that is set back must not make clients wait for as long: what is compared with the time has a monotonic reading.
func TestConnection_ReopensByTheMonotonicClock(t *testing.T) {
	t.Parallel()
	u := config.Upstream{Breaker: config.Breaker{Failures: 1, Cooldown: time.Minute}}
	e := New(u, Options{}, func() {}).endpoints[0]
	c := newConnection(nil, u, e.health, e.breakerChanged)
	c.silent.Store(true) // otherwise failures of one caller alone do not open the breaker
	done, err := c.breaker.Allow()
	if err != nil {
		t.Fatal(err)
	}
	failed := errors.New("no answer")
	c.blame.end(nil, failed)
	done(failed)
	reopens := c.reopensAt()
	if !strings.Contains(reopens.String(), " m=+") {
		t.Errorf("it reopens at %s, without a monotonic reading", reopens)
	}
	if left := time.Until(reopens); left <= 0 || left > time.Minute {
		t.Errorf("it reopens in %s", left)
	}
}
