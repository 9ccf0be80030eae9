package health

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	// manyFailed is how many gets in a row have to fail for a server to be Failing.
	manyFailed = 5
	// stableTime is how long a server whose gets succeed again is not in trouble anew, and how
	// long one failure is shown before another replaces it: the server decides how often these
	// change.
	stableTime = time.Second
	// relistPause is how often at most a denied list is requested again because a call was
	// answered.
	relistPause = 5 * time.Second
)

// State is the state of an [Server]; the package's description has what each means.
type State int

// The states.
const (
	Well State = iota
	Failing
	Probing
	Suspended
	Paused
	Renewing
	Down
)

// Failure is how a request failed.
type Failure struct {
	// Reason is the reason in one word. Failures with the same reason and the same Cause are the
	// same one.
	Reason, Cause string
	Err           error
}

// Trouble is why calls fail, although the server has a session.
type Trouble struct {
	// Failure is the last one.
	Failure

	// Suspended says that the circuit breaker is not closed, and so that calls are not even tried.
	Suspended bool
	// Since is when the first of the gets failed.
	Since time.Time
}

// same reports whether two troubles are one to operators.
func (t *Trouble) same(other *Trouble) bool {
	return t.Suspended == other.Suspended &&
		(t.Suspended || (t.Reason == other.Reason && t.Cause == other.Cause))
}

// Report is what calls show to operators.
type Report struct {
	Breaker gobreaker.State
	Trouble *Trouble // nil if there is none
}

// Settings are what an [Server] needs to know.
type Settings struct {
	// Failures in a row open the circuit breaker, for the Cooldown.
	Failures int
	Cooldown time.Duration
	// OnReport is called, with a lock held, when the report changes.
	OnReport func(Report)
}

// Server is the health of one server. Its methods are safe for concurrent use.
type Server struct {
	// Suspect has a mark when the server is to be checked at once, and Relist when the list is to
	// be requested again, because calls are answered.
	Suspect, Relist Mark

	settings Settings
	// pause is the last that the server asked for, which may be over; nil before the first.
	pause atomic.Pointer[Pause]
	// unwell is set while an answer would change anything, so that most answers take no lock.
	unwell atomic.Bool

	mu sync.Mutex // guards what follows
	// session counts sessions and their ends: an attempt that began in another one shows little of
	// this.
	session int
	// link is Well with a session, else Renewing or Down; forgotten says that it is Down because
	// the server keeps forgetting its session.
	link      State
	forgotten bool
	breaker   *breaker
	record    record
	// trouble was reported last, at changed.
	trouble *Trouble
	changed time.Time
	// denied is set while the server denies the list, which was requested again at relisted for an
	// answer.
	denied   bool
	relisted time.Time
}

// NewServer returns the health of a server that has no session.
func NewServer(settings Settings) *Server {
	e := &Server{
		settings: settings, link: Down,
		Suspect: make(Mark, 1), Relist: make(Mark, 1), breaker: new(breaker),
	}
	e.resetBreakerLocked()
	return e
}

// Up notes that there is a session.
func (e *Server) Up() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.session++
	e.link, e.forgotten = Well, false
	e.resetBreakerLocked()
	e.setUnwellLocked()
	select {
	case <-e.Suspect: // of the last session
	default:
	}
}

// Renew notes that the server forgot its session, and that a new one is opened at once.
func (e *Server) Renew() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.session++
	e.link = Renewing
}

// Down notes that there is no session. Forgotten says that the server is there, and keeps
// forgetting it.
func (e *Server) Down(forgotten bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.session++
	e.link, e.forgotten = Down, forgotten
	if forgotten { // it is the same server
		return
	}
	e.record = record{}
	// A breaker that changes its state assesses by itself.
	if !e.resetBreakerLocked() {
		e.assessLocked()
	}
	e.setUnwellLocked()
}

// State returns the state.
func (e *Server) State() State {
	paused := e.Paused() != nil
	e.mu.Lock()
	defer e.mu.Unlock()
	breaker := e.breaker.circuit.State() // which makes it half-open when its time has come
	switch {
	case e.link != Well:
		return e.link
	case paused:
		return Paused
	case breaker == gobreaker.StateOpen:
		return Suspended
	case breaker == gobreaker.StateHalfOpen:
		return Probing
	case e.record.gets >= manyFailed:
		return Failing
	}
	return Well
}

// SetDenied notes whether the server denies the list of prompts.
func (e *Server) SetDenied(denied bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.denied = denied
	e.setUnwellLocked()
}

// Mark is a channel that has room for one mark, which is taken by receiving it.
type Mark chan struct{}

// Set makes the channel have a mark. It never blocks.
func (m Mark) Set() {
	select {
	case m <- struct{}{}:
	default:
	}
}

// changeBreakerLocked notes the state of the breaker, and reports whether it was in another one. How
// often that is, is bounded by the cool-down.
func (e *Server) changeBreakerLocked(
	state gobreaker.State, circuit *gobreaker.TwoStepCircuitBreaker[struct{}],
) (news bool) {
	before := e.breaker.state
	e.breaker = &breaker{circuit: circuit, state: state, since: time.Now()}
	if state == before {
		return false
	}
	if !e.assessLocked() {
		e.settings.OnReport(Report{state, e.trouble})
	}
	return true
}

// assessLocked reports the trouble if it is another one, and says whether it is.
func (e *Server) assessLocked() (news bool) {
	next, before := e.record.trouble(e.breaker.state), e.trouble
	switch {
	case next == nil && before == nil:
		return false
	case next == nil, before == nil:
	case next.same(before):
		return false
	default:
		next.Since = before.Since
	}
	e.trouble, e.changed = next, time.Now()
	e.settings.OnReport(Report{e.breaker.state, e.trouble})
	return true
}

func (e *Server) setUnwellLocked() {
	b := e.breaker
	e.unwell.Store(b.state != gobreaker.StateClosed || b.failed || e.record.gets > 0 || e.denied)
}
