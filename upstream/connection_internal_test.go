package upstream

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
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

// So must what a server asks for, and the time of the next attempt to connect.
func TestEndpoint_WaitsByTheMonotonicClock(t *testing.T) {
	t.Parallel()
	e := New(config.Upstream{URLs: []string{"http://127.0.0.1:1"}}, Options{}, func() {}).endpoints[0]
	refused := &client.StatusError{Status: 429, RetryAfter: time.Minute}
	e.heed(refused)
	e.markDown(t.Context(), refused, time.Minute)
	for what, at := range map[string]time.Time{"the pause ends": e.paused().until, "the next attempt is": e.connection.Load().retryAt} {
		if !strings.Contains(at.String(), " m=+") {
			t.Errorf("%s at %s, without a monotonic reading", what, at)
		}
		if left := time.Until(at); left <= 0 || left > time.Minute {
			t.Errorf("%s in %s", what, left)
		}
	}
}
