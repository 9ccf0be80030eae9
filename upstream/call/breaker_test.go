package call

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/session"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

const cooldown = time.Minute

// How an attempt may end.
var (
	answered   = outcomeOf(nil)                              //nolint:gochecknoglobals // a constant
	refused    = outcomeOf(&client.StatusError{Status: 400}) //nolint:gochecknoglobals // a constant
	unanswered = outcomeOf(errors.New("it fails"))           //nolint:gochecknoglobals // a constant
	lost       = outcomeOf(client.ErrSessionLost)            //nolint:gochecknoglobals // a constant
	left       = outcomeOf(context.Canceled)                 //nolint:gochecknoglobals // a constant
)

// patient is the breaker of a server that is never contacted, with what it published.
type patient struct {
	*breaker

	t       *testing.T
	state   gobreaker.State // as last published
	changes []string        // of it
}

func newPatient(t *testing.T) *patient {
	p := &patient{t: t}
	u := &config.Upstream{URL: "http://127.0.0.1:1", Breaker: config.Breaker{Failures: 3, Cooldown: cooldown}}
	var server *session.Server
	server = session.New(u, client.Options{}, slog.New(slog.DiscardHandler), func() {
		if from, to := p.state, server.State().Breaker; from != to {
			p.changes = append(p.changes, fmt.Sprint(from, " to ", to))
			p.state = to
		}
	})
	p.breaker = newBreaker(u, server)
	return p
}

// up returns a patient with a session, in a bubble.
func up(t *testing.T, test func(*testing.T, *patient)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour) // so that no report is a moment ago
		p := newPatient(t)
		p.setLink(session.Up)
		test(t, p)
	})
}

// get makes a get for a caller that ends so.
func (p *patient) get(who Caller, o outcome) {
	p.t.Helper()
	p.send(who).end(o, true)
}

// complete makes a completion for a caller that ends so.
func (p *patient) complete(who Caller, o outcome) {
	p.t.Helper()
	p.send(who).end(o, false)
}

// send begins an attempt for a caller, and sends it.
func (p *patient) send(who Caller) permit {
	p.t.Helper()
	a, err := p.begin(who)
	if err != nil {
		p.t.Fatalf("with a breaker that is %s: %v", p.circuit.steps.State(), err)
	}
	return a
}

// A condition of a server with a session.
type condition string

const (
	well      condition = "well"
	failing   condition = "failing"
	probing   condition = "half-open"
	suspended condition = "open"
)

func (p *patient) want(want condition) {
	p.t.Helper()
	got := well
	switch state := p.circuit.steps.State(); { // which makes it half-open when its time has come
	case state != gobreaker.StateClosed:
		got = condition(state.String())
	case p.gets >= manyFailed:
		got = failing
	}
	if got != want {
		p.t.Errorf("it is %s, want %s", got, want)
	}
}

// problem returns the problem that was published last; nil for none.
func (p *patient) problem() *session.Problem { return p.server.State().Problem }

func TestBreaker_GetsWithoutASession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPatient(t)
		p.unsent(unanswered, true) // no news
		p.setLink(session.Up)
		p.want(well)
		p.setLink(session.Renewing)
		p.setLink(session.Up)
		p.want(well)
		for range 5 {
			p.setLink(session.Renewing)
			p.unsent(unanswered, true) // the server is up, but keeps forgetting its session
		}
		p.setLink(session.Up)
		p.want(failing)
		p.setLink(session.Down)
		p.setLink(session.Up)
		p.want(well)
	})
}

func TestBreaker_FiveGetsInARowMakeItFailing(t *testing.T) {
	for name, end := range map[string]outcome{"refused": refused, "unanswered": unanswered} {
		t.Run(name, func(t *testing.T) {
			up(t, func(t *testing.T, p *patient) {
				began := time.Now()
				for range 4 {
					p.get(caller("ann"), end)
					time.Sleep(time.Second)
				}
				for range 10 { // say nothing of gets
					p.complete(caller("ann"), end)
					p.get(caller("ann"), left)
					p.get(caller("ann"), lost)
				}
				p.want(well)
				p.get(caller("ann"), end)
				p.want(failing)
				if got := p.problem(); got == nil || !got.Since.Equal(began) || got.Reason != end.Reason {
					t.Errorf("reported %+v", got)
				}
				p.get(caller("bob"), answered)
				p.want(well)
				if got := p.problem(); got != nil {
					t.Errorf("reported %+v after an answer", got)
				}
			})
		})
	}
}

func TestBreaker_FailuresOfSeveralCallersSuspendIt(t *testing.T) {
	up(t, func(t *testing.T, p *patient) {
		for range 10 {
			p.get(caller("ann"), unanswered)
		}
		p.want(failing)
		p.get(caller("bob"), answered)
		for _, who := range []Caller{caller("ann"), caller("ann"), caller("bob")} {
			p.want(well)
			p.get(who, unanswered)
		}
		p.want(suspended)
		p.refuses(nil, cooldown)
		if p.problem() == nil || p.problem().Reason != session.BreakerOpen {
			t.Errorf("it is ready, or reported %+v", p.problem())
		}
		time.Sleep(cooldown + 1)
		p.want(probing)
		p.get(nil, unanswered)
		p.want(suspended)
		time.Sleep(cooldown + 1)
		p.get(nil, answered)
		p.want(well)
		p.get(nil, unanswered)
		p.get(nil, unanswered)
		p.get(nil, unanswered) // of callers of whom nothing is known
		p.want(suspended)
		p.setLink(session.Renewing)
		p.setLink(session.Up)
		p.want(well)
		want := []string{
			"closed to open", "open to half-open", "half-open to open", "open to half-open", "half-open to closed", "closed to open",
			"open to closed", // with the new session
		}
		if !slices.Equal(p.changes, want) {
			t.Errorf("the breaker changed from %s, want %s", p.changes, want)
		}
	})
}

// A person who is asked may take minutes: meanwhile nobody else is to be refused.
func TestBreaker_AProbeThatAsksItsClientEndsTheSuspension(t *testing.T) {
	up(t, func(t *testing.T, p *patient) {
		for range 3 {
			p.get(nil, unanswered)
		}
		time.Sleep(cooldown + 1)
		permit := p.send(caller("ann"))
		p.refuses(caller("ann"), 0)
		permit.asks()
		permit.asks()
		p.get(caller("ann"), answered)
		permit.end(unanswered, true)
		p.get(caller("bob"), answered)
		p.want(well)
	})
}

// suspend makes a patient Suspended by the failures of two callers, and then waits for Probing.
func (p *patient) suspend() {
	p.t.Helper()
	for _, who := range []Caller{caller("ann"), caller("ann"), caller("bob")} {
		p.get(who, unanswered)
	}
	p.want(suspended)
	time.Sleep(cooldown)
	p.want(probing)
}

// refuses checks that a caller is refused, and told to come back after a time.
func (p *patient) refuses(who Caller, retryAfter time.Duration) {
	p.t.Helper()
	_, err := p.begin(who)
	if refusal, ok := errors.AsType[*Unavailable](err); !ok || refusal.RetryAfter != retryAfter {
		p.t.Errorf("a call of %v: %v, want a refusal for %s", who, err, retryAfter)
	}
}

// One caller may be the first whenever the breaker is half-open, with calls that the server cannot
// answer: that suspends this caller only.
func TestBreaker_FailedProbesOfTwoCallersSuspendItAgain(t *testing.T) {
	up(t, func(t *testing.T, p *patient) {
		p.suspend()
		for range 3 {
			p.get(caller("ann"), unanswered)
			p.want(probing)
			p.refuses(caller("ann"), cooldown)
			time.Sleep(cooldown)
		}
		p.get(caller("bob"), answered)
		p.want(well)
		p.suspend()
		p.get(caller("ann"), unanswered)
		time.Sleep(time.Second)
		p.get(caller("bob"), unanswered)
		p.want(suspended)
		p.refuses(caller("cid"), cooldown)
	})
}

// Nor does a caller keep others from probing by calls that hang, or that it gives up.
func TestBreaker_ProbesOfOneCallerLeaveRoomForAnother(t *testing.T) {
	up(t, func(t *testing.T, p *patient) {
		p.suspend()
		hanging := p.send(caller("ann"))
		p.refuses(caller("ann"), 0)
		other := p.send(caller("bob"))
		p.refuses(caller("cid"), 0) // more would be no probe of a server that may still be overloaded
		other.end(left, true)
		p.get(caller("cid"), answered)
		p.want(well)
		hanging.end(unanswered, true)
		p.want(well)
	})
}

// An attempt that began on another session says little of this one.
func TestBreaker_OldAttemptsAreHistory(t *testing.T) {
	up(t, func(t *testing.T, p *patient) {
		var old []permit
		for range 10 {
			old = append(old, p.send(nil))
		}
		p.setLink(session.Down)
		p.setLink(session.Up)
		for i := range old {
			old[i].end(unanswered, true)
		}
		p.want(well)
	})
}
