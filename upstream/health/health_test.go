package health_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/promptweir/promptweir/upstream/health"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

type caller string

func (c caller) Key() string { return string(c) }

const cooldown = time.Minute

var errServer = errors.New("it fails")

// patient is an endpoint under test, with what it reported.
type patient struct {
	*health.Server

	t       *testing.T
	reports []health.Report
	breaker gobreaker.State // as last reported
	changes []string        // of it
}

func newPatient(t *testing.T) *patient {
	p := &patient{t: t}
	p.Server = health.NewServer(health.Settings{
		Failures: 3, Cooldown: cooldown,
		OnReport: func(r health.Report) {
			if from := p.breaker; from != r.Breaker {
				p.changes = append(p.changes, fmt.Sprint(from, " to ", r.Breaker))
			}
			p.reports, p.breaker = append(p.reports, r), r.Breaker
		},
	})
	return p
}

// up returns a patient with a session, in a bubble.
func up(t *testing.T, test func(*testing.T, *patient)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour) // so that no report is a moment ago
		p := newPatient(t)
		p.Up()
		test(t, p)
	})
}

// get makes a get for a caller that ends with a verdict.
func (p *patient) get(who health.Caller, verdict health.Verdict) {
	p.t.Helper()
	p.end(who, health.Outcome{Verdict: verdict, Get: true, Failure: failure})
}

var failure = health.Failure{Reason: "bad_response", Cause: "fails", Err: errServer} //nolint:gochecknoglobals // a constant

func (p *patient) end(who health.Caller, o health.Outcome) {
	p.t.Helper()
	p.send(who).End(o)
}

// send begins an attempt for a caller, and sends it.
func (p *patient) send(who health.Caller) health.Attempt {
	p.t.Helper()
	a, err := p.Begin(who)
	if err != nil {
		p.t.Fatalf("in state %d: %v", p.State(), err)
	}
	return a
}

func (p *patient) want(state health.State) {
	p.t.Helper()
	if got := p.State(); got != state {
		p.t.Errorf("state is %d, want %d", got, state)
	}
}

// trouble returns the trouble that was reported last.
func (p *patient) trouble() *health.Trouble {
	if len(p.reports) == 0 {
		return nil
	}
	return p.reports[len(p.reports)-1].Trouble
}

func isMarked(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestServer_StatesWithoutASession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPatient(t)
		p.want(health.Down)
		p.Unsent(true, failure) // no news
		p.Up()
		p.want(health.Well)
		p.Renew()
		p.want(health.Renewing)
		p.Up()
		p.want(health.Well)
		for range 5 {
			p.Down(true)
			p.Unsent(true, failure) // of a server that is there, and keeps forgetting its session
			p.want(health.Down)
		}
		p.Up()
		p.want(health.Failing)
		p.Down(false)
		p.Up()
		p.want(health.Well)
	})
}

func TestServer_FiveGetsInARowMakeItFailing(t *testing.T) {
	for name, verdict := range map[string]health.Verdict{"refused": health.Refused, "unanswered": health.Unanswered} {
		t.Run(name, func(t *testing.T) {
			up(t, func(t *testing.T, p *patient) {
				began := time.Now()
				for range 4 {
					p.get(caller("ann"), verdict)
					time.Sleep(time.Second)
				}
				for range 10 { // say nothing of gets
					p.end(caller("ann"), health.Outcome{Verdict: verdict, Failure: failure})
					p.get(caller("ann"), health.Excused)
					p.get(caller("ann"), health.Lost)
				}
				p.want(health.Well)
				p.get(caller("ann"), verdict)
				p.want(health.Failing)
				if got := p.trouble(); got == nil || !got.Since.Equal(began) || got.Reason != "bad_response" || got.Suspended {
					t.Errorf("reported %+v", got)
				}
				p.get(caller("bob"), health.Answered)
				p.want(health.Well)
				if got := p.trouble(); got != nil {
					t.Errorf("reported %+v after an answer", got)
				}
			})
		})
	}
}

func TestServer_ReportsHaveAPace(t *testing.T) {
	up(t, func(t *testing.T, p *patient) {
		for range 100 { // within ten seconds
			for range 6 {
				p.get(caller("ann"), health.Refused)
			}
			p.get(caller("ann"), health.Answered)
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(p.reports); n > 20 {
			t.Errorf("%d reports in ten seconds", n)
		}
	})
}

func TestServer_FailuresOfSeveralCallersSuspendIt(t *testing.T) {
	up(t, func(t *testing.T, p *patient) {
		for range 10 {
			p.get(caller("ann"), health.Unanswered)
		}
		p.want(health.Failing)
		p.get(caller("bob"), health.Answered)
		for _, who := range []health.Caller{caller("ann"), caller("ann"), caller("bob")} {
			p.want(health.Well)
			p.get(who, health.Unanswered)
		}
		p.want(health.Suspended)
		if _, err := p.Begin(nil); err == nil {
			t.Error("a call was let through")
		} else if refusal, ok := errors.AsType[*health.SuspendedError](err); !ok || refusal.RetryAfter != cooldown {
			t.Errorf("refused with %v", err)
		}
		if p.trouble() == nil || !p.trouble().Suspended {
			t.Errorf("it is ready, or reported %+v", p.trouble())
		}
		time.Sleep(cooldown + 1)
		p.want(health.Probing)
		p.get(nil, health.Unanswered)
		p.want(health.Suspended)
		time.Sleep(cooldown + 1)
		p.get(nil, health.Answered)
		p.want(health.Well)
		p.get(nil, health.Unanswered)
		p.get(nil, health.Unanswered)
		p.get(nil, health.Unanswered) // of callers of whom nothing is known
		p.want(health.Suspended)
		p.Renew()
		p.Up()
		p.want(health.Well)
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
func TestServer_AProbeThatAsksItsClientEndsTheSuspension(t *testing.T) {
	up(t, func(t *testing.T, p *patient) {
		for range 3 {
			p.get(nil, health.Unanswered)
		}
		time.Sleep(cooldown + 1)
		probe := p.send(caller("ann"))
		p.refuses(caller("ann"), 0)
		probe.Asks()
		probe.Asks()
		p.get(caller("ann"), health.Answered)
		probe.End(health.Outcome{Verdict: health.Unanswered, Get: true, Failure: failure})
		p.get(caller("bob"), health.Answered)
		p.want(health.Well)
	})
}

// suspend makes a patient Suspended by the failures of two callers, and then waits for Probing.
func (p *patient) suspend() {
	p.t.Helper()
	for _, who := range []health.Caller{caller("ann"), caller("ann"), caller("bob")} {
		p.get(who, health.Unanswered)
	}
	p.want(health.Suspended)
	time.Sleep(cooldown)
	p.want(health.Probing)
}

// refuses checks that a caller is refused, and told to come back after a time.
func (p *patient) refuses(who health.Caller, retryAfter time.Duration) {
	p.t.Helper()
	_, err := p.Begin(who)
	if refusal, ok := errors.AsType[*health.SuspendedError](err); !ok || refusal.RetryAfter != retryAfter {
		p.t.Errorf("a call of %v: %v, want a refusal for %s", who, err, retryAfter)
	}
}

// One caller may be the first whenever the breaker is half-open, with calls that the server cannot
// answer.
func TestServer_FailedProbesOfOneCallerSuspendThatCallerOnly(t *testing.T) {
	up(t, func(t *testing.T, p *patient) {
		p.suspend()
		for range 3 {
			p.get(caller("ann"), health.Unanswered)
			p.want(health.Probing)
			p.refuses(caller("ann"), cooldown)
			time.Sleep(cooldown)
		}
		p.get(caller("bob"), health.Answered)
		p.want(health.Well)
	})
}

func TestServer_FailedProbesOfTwoCallersSuspendItAgain(t *testing.T) {
	up(t, func(t *testing.T, p *patient) {
		p.suspend()
		p.get(caller("ann"), health.Unanswered)
		time.Sleep(time.Second)
		p.get(caller("bob"), health.Unanswered)
		p.want(health.Suspended)
		p.refuses(caller("cid"), cooldown)
	})
}

// Nor does a caller keep others from probing by calls that hang, or that it gives up.
func TestServer_ProbesOfOneCallerLeaveRoomForAnother(t *testing.T) {
	up(t, func(t *testing.T, p *patient) {
		p.suspend()
		hanging := p.send(caller("ann"))
		p.refuses(caller("ann"), 0)
		other := p.send(caller("bob"))
		p.refuses(caller("cid"), 0) // more would be no probe of a server that may still be overloaded
		other.End(health.Outcome{Verdict: health.Excused})
		p.get(caller("cid"), health.Answered)
		p.want(health.Well)
		hanging.End(health.Outcome{Verdict: health.Unanswered, Get: true, Failure: failure})
		p.want(health.Well)
	})
}

// An attempt that began on another session says little of this one.
func TestServer_OldAttemptsAreHistory(t *testing.T) {
	up(t, func(t *testing.T, p *patient) {
		var old []health.Attempt
		for range 10 {
			old = append(old, p.send(nil))
		}
		p.Down(false)
		p.Up()
		for i := range old {
			old[i].End(health.Outcome{Verdict: health.Unanswered, Get: true, Suspicious: true, Failure: failure})
		}
		p.want(health.Well)
		if isMarked(p.Suspect) {
			t.Error("the new session is checked")
		}
	})
}

func TestServer_PauseRefusesUntilItIsOver(t *testing.T) {
	up(t, func(t *testing.T, p *patient) {
		if !p.Pause(time.Minute, failure) || p.Pause(time.Minute, failure) {
			t.Error("only the first of two is news")
		}
		p.want(health.Paused)
		if in := p.NextCheck(time.Hour); in != time.Minute {
			t.Errorf("it is checked in %s", in)
		}
		time.Sleep(time.Minute)
		p.want(health.Well)
	})
}

func TestServer_ChecksAServerThatIsIdleOrSuspect(t *testing.T) {
	up(t, func(t *testing.T, p *patient) {
		if in := p.NextCheck(0); in < 27*time.Second || in > 30*time.Second {
			t.Errorf("it is checked in %s", in)
		}
		if in := p.NextCheck(30 * time.Second); in > 0 {
			t.Errorf("it is checked in %s", in)
		}
		p.end(nil, health.Outcome{Verdict: health.Refused, Failure: failure})
		if isMarked(p.Suspect) {
			t.Error("it is suspect for an answer")
		}
		p.end(nil, health.Outcome{Verdict: health.Unanswered, Suspicious: true, Failure: failure})
		if !isMarked(p.Suspect) {
			t.Error("it is not suspect")
		}
	})
}
