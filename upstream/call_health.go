package upstream

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// manyFailed is how many gets in a row have to fail for the endpoint to be in trouble although its list is fresh.
	manyFailed = 5
	// calmTime is how long an endpoint whose gets succeed again is not in trouble anew, and how long one cause is shown before
	// another takes its place: the server decides how often these change.
	calmTime = time.Second
	// maxTroubleLogged bounds how often the same is logged of one endpoint's calls within ten seconds.
	maxTroubleLogged = 3
)

// callHealth finds out from calls whether an endpoint is in trouble although its list is fresh: its breaker is not closed, or all
// gets fail. It does not matter who gets: one get that the server answers, even with a JSON-RPC error, ends the trouble. All calls
// are made with the gateway's own credential. One that is made with a caller's must not be noted here.
type callHealth struct {
	// onChange is called, with a lock held, when the breaker changes its state, and when the trouble begins, changes or ends.
	onChange func(breaker gobreaker.State, trouble *Problem)
	// failing is set while gets fail, so that one that succeeds need not lock.
	failing atomic.Bool

	mu sync.Mutex // guards what follows
	// row is how many gets have failed in a row, the first of them at began. Reason and last are why the last call failed.
	row     int
	began   time.Time
	reason  Reason
	last    error
	breaker gobreaker.State
	// trouble is what was passed on last, at changed.
	trouble *Problem
	changed time.Time
}

// end notes how an attempt of a call ended.
func (h *callHealth) end(method string, err error) {
	answered := err == nil
	if !answered {
		_, answered = answerIn(err)
	}
	switch {
	case answered:
		if method == wire.PromptsGet && h.failing.Load() {
			h.succeed()
		}
	case isExcused(err), errors.Is(err, client.ErrSessionLost): // it says nothing about the server, and is made again
	default:
		h.fail(method, err)
	}
}

func (h *callHealth) succeed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.row = 0
	h.failing.Store(false)
	h.assessLocked()
}

// fail notes a failure that is the endpoint's.
func (h *callHealth) fail(method string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reason, h.last = reasonOf(err), err
	if unavailable, ok := errors.AsType[*Unavailable](err); ok {
		h.last = unavailable.Err
	}
	if method != wire.PromptsGet {
		return // which only matters to the breaker
	}
	h.failing.Store(true)
	if h.row++; h.row == 1 {
		h.began = time.Now()
	}
	if time.Since(h.changed) >= calmTime {
		h.assessLocked()
	}
}

// setBreaker notes the state that the breaker has changed to. How often that is, is bounded by the cooldown.
func (h *callHealth) setBreaker(state gobreaker.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.breaker == state {
		return
	}
	h.breaker = state
	if !h.assessLocked() {
		h.onChange(h.breaker, h.trouble)
	}
}

// lastFailure returns how the last call failed; nil if none has.
func (h *callHealth) lastFailure() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// forget ends the trouble, because the server went down: one that comes back may well be another.
func (h *callHealth) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.row, h.breaker, h.last = 0, gobreaker.StateClosed, nil
	h.failing.Store(false)
	h.assessLocked()
}

// assessLocked passes on what is wrong now, and reports whether that is news.
func (h *callHealth) assessLocked() (news bool) {
	next, before := h.troubleLocked(), h.trouble
	switch {
	case next == nil && before == nil:
		return false
	case next == nil, before == nil:
	case before.hasCause(next.Reason, next.Err):
		return false
	default:
		next.Since = before.Since
	}
	h.trouble, h.changed = next, time.Now()
	h.onChange(h.breaker, next)
	return true
}

// troubleLocked returns what is wrong now, or nil.
func (h *callHealth) troubleLocked() *Problem {
	trouble := &Problem{Since: time.Now(), Err: h.last, Failing: true}
	if h.row > 0 {
		trouble.Since = h.began
	}
	switch {
	case h.breaker != gobreaker.StateClosed:
		trouble.Reason = BreakerOpen
	case h.row >= manyFailed:
		trouble.Reason = h.reason
	default:
		return nil
	}
	return trouble
}
