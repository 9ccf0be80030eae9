package health

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/time/rate"
)

const (
	// firstBackoff and lastBackoff bound the time between two attempts to connect. A server that is
	// back is well again after 10 seconds: what is left of them is for the attempt and the list.
	firstBackoff = 200 * time.Millisecond
	lastBackoff  = 9 * time.Second
	// backoffJitter randomises that time by ±50 % to avoid a thundering herd.
	backoffJitter = 0.5
	// SteadyTime is how long a session or a stream must have lasted for the backoff to start again.
	SteadyTime = 3 * time.Second

	// reconnectRate is how often in a second the connectors that share a [Reconnects] try to
	// connect again, on average, once very many servers are down. An attempt takes up to a
	// quarter of a millisecond of processor time.
	reconnectRate = 1000
	// reconnectTick is between the moments at which they do. When each of a thousand attempts a
	// second had a moment of its own, a third of the processor's time went into falling asleep and
	// waking up between them.
	reconnectTick = 20 * time.Millisecond
	// firstRate is how many servers in a second connect for the first time once firstBurst have.
	// Ten thousand at once took 200 MB more, and none was sooner connected.
	firstRate  = 2500
	firstBurst = 1000
)

// NewBackoff returns the backoff of anything that is opened again.
func NewBackoff() *backoff.ExponentialBackOff {
	b := &backoff.ExponentialBackOff{
		InitialInterval: firstBackoff, RandomizationFactor: backoffJitter, Multiplier: 2,
		MaxInterval: lastBackoff * 2 / 3, // which jitter raises to lastBackoff at most
	}
	b.Reset()
	return b
}

// Jitter takes up to half off a time.
func Jitter(wait time.Duration) time.Duration {
	return time.Duration(float64(wait) * (1 - backoffJitter*rand.Float64())) //nolint:gosec // jitter
}

// Redial says when one server is to be connected, by its own backoff and a pace that it shares.
// But for Stop, its methods are for the goroutine that connects.
type Redial struct {
	team    string
	pace    *Reconnects
	backoff *backoff.ExponentialBackOff
}

func newRedial(team string) *Redial {
	return &Redial{team: team, pace: NewReconnects(), backoff: NewBackoff()}
}

// Share makes the server connect at a pace that others share. To be called before anything else.
func (d *Redial) Share(pace *Reconnects) { d.pace = pace }

// First returns how long the first attempt has to wait.
func (d *Redial) First() time.Duration { return d.pace.first.Reserve().Delay() }

// Next returns how long the next attempt has to wait, after one that failed or a session that
// broke; steady if that had lasted. A server that only forgot its session is up, and is asked for a
// new one without regard to others.
func (d *Redial) Next(steady, forgot bool) time.Duration {
	if steady {
		d.backoff.Reset()
	}
	wait := d.backoff.NextBackOff()
	if forgot {
		return wait
	}
	return max(wait, d.pace.failed(d))
}

// Stop notes that the server has a session, or is not tried again.
func (d *Redial) Stop() { d.pace.ended(d) }

// Reconnects is the pace at which servers connect that share it. While few are down, each has
// only its own backoff. When very many are, they share a rate: each team with servers that are
// down gets the same part of it, so that a team waits because of its own. Its methods are safe for
// concurrent use.
type Reconnects struct {
	first *rate.Limiter // of first attempts

	mu sync.Mutex // guards down
	// down are the servers without a session, by team.
	down map[string]map[*Redial]bool
}

// NewReconnects returns a pace for the servers of one process, see [Redial.Share].
func NewReconnects() *Reconnects {
	return &Reconnects{
		first: rate.NewLimiter(firstRate, firstBurst), down: map[string]map[*Redial]bool{},
	}
}

// failed notes that a server is down, and returns the least time until its next attempt,
// randomised like a backoff.
func (r *Reconnects) failed(d *Redial) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down[d.team] == nil {
		r.down[d.team] = map[*Redial]bool{}
	}
	r.down[d.team][d] = true
	// Until it is the server's turn again, if teams take turns and so do their servers.
	turns := len(r.down[d.team]) * len(r.down)
	wait := time.Duration(turns) * time.Second / reconnectRate
	wait = time.Duration(float64(wait) * (1 + backoffJitter*(2*rand.Float64()-1))) //nolint:gosec // jitter
	now := time.Now()
	// Truncate counts from the zero time, so that all servers have the same ticks.
	return now.Add(wait + reconnectTick).Truncate(reconnectTick).Sub(now)
}

// ended notes that a server has a session, or is not tried again.
func (r *Reconnects) ended(d *Redial) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.down[d.team], d)
	if len(r.down[d.team]) == 0 {
		delete(r.down, d.team)
	}
}
