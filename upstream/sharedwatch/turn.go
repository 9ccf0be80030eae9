package sharedwatch

import (
	"errors"
	"time"
)

// ErrNotShareable means that a list cannot be put, and need not be put again before it changes.
var ErrNotShareable = errors.New("the list cannot be shared")

// Turn is how things are when an endpoint attends.
type Turn struct {
	// Lease names what the numbers are of. It changes with the cursor keys; what has another name cannot be compared.
	Lease string
	// Held says that the endpoint holds the lease, and Number which one it is: a greater one for each holder. Left is how long it lasts,
	// since the endpoint began to attend.
	Held   bool
	Number uint64
	Left   time.Duration
	// Next is when to attend again, at the latest: in time to renew the lease, or when it is over, or much later if the endpoint will be
	// woken then.
	Next time.Duration
	// Asked grows whenever an endpoint asks for a list: a list that answers it was requested after that.
	Asked uint64
	// ListNumber and Version say which list is there: the number of who put it, and a version that grows while that one holds. Both are 0
	// for none.
	ListNumber, Version uint64
	// Answers is the Asked that the holder knew before it requested the list.
	Answers uint64
	// TTL is for how long the list is good although nobody would report a change; 0 where that is unknown.
	TTL time.Duration
	// Alone says that what the holder put is that it has no list for the others, see [Turn.IsAlone].
	Alone bool
	// Size is that of the list in the store, in bytes.
	Size int
}

// IsAlone reports whether whoever holds the lease has no list for the others, so that each has to watch for itself.
func (t *Turn) IsAlone() bool { return t.Alone && t.ListNumber == t.Number }
