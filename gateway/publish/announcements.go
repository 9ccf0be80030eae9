package publish

import (
	"sync"
	"time"

	"github.com/promptweir/promptweir/gateway/snapshot"
)

// maxWaiting bounds the snapshots that wait to be announced.
const maxWaiting = 64

// announcements queues the snapshots about which subscribers have not been notified yet, in order.
// A queue is needed because evaluating conditions for all subscribers may take long, and must not
// delay the next snapshot.
type announcements struct {
	wake chan struct{} // buffers one value

	mu      sync.Mutex // guards the fields below
	waiting []*snapshot.Snapshot
	overrun bool // some snapshots were dropped
}

// add adds a snapshot. If too many wait, the new snapshot replaces all of them.
func (a *announcements) add(next *snapshot.Snapshot) {
	a.mu.Lock()
	// Each waiting snapshot holds a catalog in memory.
	if len(a.waiting) == maxWaiting {
		a.waiting, a.overrun = nil, true
	}
	a.waiting = append(a.waiting, next)
	a.mu.Unlock()
	signal(a.wake)
}

// take returns the snapshots to announce. overrun reports whether earlier snapshots were dropped.
func (a *announcements) take() (due []*snapshot.Snapshot, overrun bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	due, overrun = a.waiting, a.overrun
	a.waiting, a.overrun = nil, false
	return due, overrun
}

// signal sends a value to a channel with room for one, unless the channel is full. It never blocks.
func signal(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default: // the value in the channel also announces this change
	}
}

const (
	// soon and later are the delays after which a notified subscription is notified again.
	soon, later = 10 * time.Second, 90 * time.Second
	// gather is the time in which notified subscriptions are collected to share timers.
	gather = 500 * time.Millisecond
	// recently is the time after a change in which a client that reconnects may have missed a
	// repetition.
	recently = 2 * later
)

// repeats wakes notified subscriptions again, because their clients may have listed at another
// replica that got the change later. The zero value repeats nothing.
type repeats struct {
	isOn bool // true if there are other replicas

	mu         sync.Mutex // guards the fields below
	lastChange time.Time
	// next contains the subscriptions that a timer will schedule. It is nil if no timer is running.
	next map[*Subscription]struct{}
}

// changed records that the lists or configuration of this replica have changed.
func (r *repeats) changed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastChange = time.Now()
}

// opened schedules repetitions for a new subscription if a change is recent: at another replica, its
// client may have read a list without the change. It does not check whether the change affects the
// view.
func (r *repeats) opened(sub *Subscription) {
	r.mu.Lock()
	isRecent := time.Since(r.lastChange) < recently
	r.mu.Unlock()
	if isRecent {
		r.add(sub)
	}
}

// add wakes a subscription 10 and 90 seconds from now. Subscriptions that are added at about the
// same time share timers, because a busy gateway would otherwise need very many.
func (r *repeats) add(sub *Subscription) {
	if !r.isOn {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = map[*Subscription]struct{}{}
		time.AfterFunc(gather, r.schedule)
	}
	r.next[sub] = struct{}{}
}

func (r *repeats) schedule() {
	r.mu.Lock()
	defer r.mu.Unlock()
	due := r.next
	r.next = nil
	wake := func() {
		for sub := range due { // a closed subscription ignores the signal
			signal(sub.wake)
		}
	}
	time.AfterFunc(soon, wake)
	time.AfterFunc(later, wake)
}
