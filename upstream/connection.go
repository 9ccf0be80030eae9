package upstream

import (
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
)

// connection is the present session with an endpoint and everything that ends with it, or the lack of a session.
type connection struct {
	// name is the upstream's.
	name    string
	session *client.Session // nil while there is none
	pool    *sessionPool
	legacy  *legacyGets // nil if the session is of the legacy era, or its revision is configured
	// breaker is closed when the connection begins.
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	blame   blame
	// opened is when the breaker opened, and cooldown how long it then stays open.
	opened   atomic.Pointer[time.Time]
	cooldown time.Duration
	health   *callHealth // the endpoint's
	// suspect holds at most one mark: a call got no answer, so check whether the session still works.
	suspect chan struct{}
	// silent is set while the server gives no sign of life.
	silent atomic.Bool
	// retryAt is when the next attempt to connect is due, without a session.
	retryAt time.Time
	// forgotten says that there is no session because the server keeps forgetting it, and not because it is down.
	forgotten bool
	// renewing says that the server is up and a new session is being opened, so that calls should wait for it.
	renewing bool
	// replaced is closed when another connection has taken the place of this one.
	replaced chan struct{}
}

// newConnection returns the connection of a session that has just been opened. It calls onTransition when the circuit
// breaker changes its state.
func newConnection(session *client.Session, u config.Upstream, health *callHealth, onTransition func(from, to gobreaker.State)) *connection {
	c := &connection{
		name: u.Name, session: session, cooldown: u.Breaker.Cooldown, health: health,
		suspect: make(chan struct{}, 1), replaced: make(chan struct{}),
	}
	c.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:    u.Name,
		Timeout: c.cooldown,
		ReadyToTrip: func(counts gobreaker.Counts) bool {
			return int64(counts.ConsecutiveFailures) >= int64(u.Breaker.Failures) && (c.blame.onSeveral() || c.silent.Load())
		},
		// An error that the server returned shows that it works.
		IsSuccessful: client.Answered,
		IsExcluded:   isExcused,
		OnStateChange: func(_ string, from, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				now := time.Now()
				c.opened.Store(&now)
			}
			onTransition(from, to)
			if !c.isReplaced() {
				health.setBreaker(to)
			}
		},
	})
	return c
}

// noteEnd notes how an attempt of a call ended, unless that was on a connection that has been replaced.
func (c *connection) noteEnd(method string, err error) {
	if err == nil || !c.isReplaced() {
		c.health.end(method, err)
	}
}

func (c *connection) isReplaced() bool {
	select {
	case <-c.replaced:
		return true
	default:
		return false
	}
}

// poolFor returns the pool whose sessions a call is to be made on.
func (c *connection) poolFor(k *call) *sessionPool {
	if c.legacy.begins(k) {
		return c.legacy.pool
	}
	return c.pool
}

// noConnection returns a connection without a session.
func noConnection() *connection { return &connection{replaced: make(chan struct{})} }

// reopensAt returns when an open breaker lets the next call through.
func (c *connection) reopensAt() time.Time {
	if opened := c.opened.Load(); opened != nil {
		return opened.Add(c.cooldown)
	}
	return time.Time{}
}
