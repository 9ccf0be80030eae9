package upstream

import (
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// reconnectRate is how often in a second the connectors that share a [Reconnects] try to connect again, on average, once
	// very many endpoints are down. An attempt takes up to a quarter of a millisecond of processor time.
	reconnectRate = 1000
	// reconnectTick is between the moments at which they do. When each of a thousand attempts a second had a moment of its own, a third of
	// the processor's time went into falling asleep and waking up between them.
	reconnectTick = 20 * time.Millisecond
	// firstRate is how many endpoints in a second connect for the first time once firstBurst have. Ten thousand at once took
	// 200 MB more, and none was sooner connected.
	firstRate  = 2500
	firstBurst = 1000
)

// Reconnects is the pace at which connectors connect that share it. While few endpoints are down, each has only its own
// backoff. When very many are, they share a rate: each team with endpoints that are down gets the same part of it, so that a
// team waits because of its own. Its methods are safe for concurrent use.
type Reconnects struct {
	first *rate.Limiter // of first attempts

	mu sync.Mutex // guards down
	// down are the endpoints without a session, by team.
	down map[string]map[*endpoint]bool
}

// NewReconnects returns a pace for the connectors of one process, see [Connector.Share].
func NewReconnects() *Reconnects {
	return &Reconnects{first: rate.NewLimiter(firstRate, firstBurst), down: map[string]map[*endpoint]bool{}}
}

// begin returns how long an endpoint waits before its first attempt.
func (r *Reconnects) begin() time.Duration { return r.first.Reserve().Delay() }

// failed notes that an endpoint is down, and returns the least time until its next attempt, randomised like a backoff.
func (r *Reconnects) failed(e *endpoint) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	team := e.upstream.Team
	if r.down[team] == nil {
		r.down[team] = map[*endpoint]bool{}
	}
	r.down[team][e] = true
	turns := len(r.down[team]) * len(r.down) // until it is the endpoint's turn again, if teams take turns and so do their endpoints
	wait := time.Duration(turns) * time.Second / reconnectRate
	wait = time.Duration(float64(wait) * (1 + backoffJitter*(2*rand.Float64()-1))) //nolint:gosec // jitter
	now := time.Now()
	return now.Add(wait + reconnectTick).Truncate(reconnectTick).Sub(now)
}

// ended notes that an endpoint has a session, or is not tried again.
func (r *Reconnects) ended(e *endpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	team := e.upstream.Team
	delete(r.down[team], e)
	if len(r.down[team]) == 0 {
		delete(r.down, team)
	}
}
