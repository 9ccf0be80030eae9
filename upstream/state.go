package upstream

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// State is what is known of an upstream at one moment. It is immutable.
type State struct {
	// Tried is true once a first attempt to list has succeeded or failed.
	Tried bool
	// Listed is true once a list has been taken; Definitions is the last good one, in the server's order.
	Listed      bool
	Definitions []jsontext.Value
	// Lists counts the lists that brought something new: it changes whenever Definitions does.
	Lists uint64
	// Connected is true while there is a session.
	Connected bool
	// Revision is the protocol revision of the present or last session; empty before the first.
	Revision string
	// Problem is what keeps the list from being fresh; nil when it is.
	Problem *Problem
}

// Problem is why an upstream is degraded.
type Problem struct {
	Reason Reason
	// Since is when it began.
	Since time.Time
	// Err is the cause, for logs; it may hold addresses.
	Err error
}

// Degraded is the reason of a list that was refused by a guard or by the server. A list that was not answered, on a
// session that goes on, has the reason of any call.
const Degraded Reason = "list_refused"

// State returns what is known now. It never blocks.
func (c *Connector) State() *State { return c.state.Load() }

// update publishes a changed copy of the state and tells the owner. Called from Run's goroutines, one at a time.
func (c *Connector) update(change func(*State)) {
	c.mu.Lock()
	next := *c.state.Load()
	change(&next)
	c.state.Store(&next)
	c.mu.Unlock()
	c.onChange()
}

// degrade records a problem. One that goes on keeps the time when it began.
func (s *State) degrade(reason Reason, err error) {
	s.Tried = true
	since := time.Now()
	if s.Problem != nil {
		since = s.Problem.Since
	}
	s.Problem = &Problem{Reason: reason, Since: since, Err: err}
}
