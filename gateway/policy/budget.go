package policy

import (
	"errors"
	"time"
)

// What the conditions of all rules may cost one request. Each evaluation has a bound of its own,
// which decides; these fail the request and decide nothing.
const (
	requestSteps = 64 << 20
	entrySteps   = 16 << 10 // besides, for each entry of the catalog
	requestTime  = 5 * time.Second
)

// ErrBudget means that the conditions take more than one request may spend. What was evaluated is
// remembered, so that a later request gets further.
var ErrBudget = errors.New("the conditions that decide about the catalog take more than one request may spend")

// Budget is what one request may spend on conditions. It is for one goroutine.
type Budget struct {
	steps    int
	deadline time.Time
}

// NewBudget returns the budget of a request that looks at a number of entries, which begins now.
func NewBudget(entries int) *Budget {
	return &Budget{requestSteps + entries*entrySteps, time.Now().Add(requestTime)}
}

// left reports whether another condition may be evaluated. A nil budget has no bound.
func (b *Budget) left() bool { return b == nil || b.steps > 0 && time.Now().Before(b.deadline) }

// spend takes the steps of an evaluation, which may be more than were left.
func (b *Budget) spend(steps int) {
	if b != nil {
		b.steps -= steps
	}
}
