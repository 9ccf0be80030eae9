package health

import (
	"time"

	"github.com/sony/gobreaker/v2"
)

// record is what calls have shown of an endpoint. The zero value is that of a server that answers.
type record struct {
	callers callers
	// gets have failed in a row, the first of them at began.
	gets  int
	began time.Time
	// last is how the last call failed.
	last Failure
}

// callers are those who had the failures in a row that the circuit breaker counts.
type callers struct {
	// only is who had all of them, unless several had.
	only           string
	begun, several bool
}

// add adds the caller of a failure. Of a nil caller nothing is known: it may be anybody.
func (c *callers) add(caller Caller) {
	switch {
	case caller == nil:
		c.several = true
	case !c.begun:
		c.only = caller.Key()
	case c.only != caller.Key():
		c.several = true
	}
	c.begun = true
}

// fail notes a failure. Only gets are counted.
func (r *record) fail(get bool, f Failure) {
	r.last = f
	if !get {
		return
	}
	if r.gets++; r.gets == 1 {
		r.began = time.Now()
	}
}

// isWell reports whether an answer would change nothing.
func (r *record) isWell() bool { return !r.callers.begun && r.gets == 0 }

// trouble returns what is wrong, beside the state of the breaker, or nil.
func (r *record) trouble(breaker gobreaker.State) *Trouble {
	suspended := breaker != gobreaker.StateClosed
	if !suspended && r.gets < manyFailed {
		return nil
	}
	t := &Trouble{Failure: r.last, Suspended: suspended, Since: time.Now()}
	if r.gets > 0 {
		t.Since = r.began
	}
	return t
}
