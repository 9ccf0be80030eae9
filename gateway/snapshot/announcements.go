package snapshot

import (
	"sync"
	"time"
)

// maxWaiting bounds the snapshots that wait to be announced.
const maxWaiting = 64

// announcements are the snapshots whose changes subscribers have not been notified of yet, in
// order. Evaluating conditions for all subscribers may take long, and does not hold up the next
// snapshot.
type announcements struct {
	wake chan struct{} // has room for one

	mu      sync.Mutex // guards what follows
	waiting []*Snapshot
	overrun bool // some were left out
}

// add adds a snapshot. If too many wait, it replaces all.
func (a *announcements) add(next *Snapshot) {
	a.mu.Lock()
	// Each of them keeps a catalog in memory.
	if len(a.waiting) == maxWaiting {
		a.waiting, a.overrun = nil, true
	}
	a.waiting = append(a.waiting, next)
	a.mu.Unlock()
	signal(a.wake)
}

// take returns the snapshots to announce, and whether some were left out before them.
func (a *announcements) take() (due []*Snapshot, overrun bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	due, overrun = a.waiting, a.overrun
	a.waiting, a.overrun = nil, false
	return due, overrun
}

// signal marks a channel that holds one mark at most. It never blocks.
func signal(marked chan<- struct{}) {
	select {
	case marked <- struct{}{}:
	default: // whoever receives the mark that is there sees this change, too
	}
}

const (
	// Soon and later are how long after a change its subscribers are notified again.
	soon, later = 10 * time.Second, 90 * time.Second
	// gather is how long changes wait to be repeated together.
	gather = 500 * time.Millisecond
	// recently is how long after a change a client may reconnect that has missed a repetition.
	recently = 2 * later
)

// repeats wake subscriptions again, since a client that was notified by this replica may have
// listed at one that got the change later. The zero value repeats nothing.
type repeats struct {
	isOn bool // there are other replicas

	mu         sync.Mutex // guards what follows
	lastChange time.Time
	// next are the subscriptions that a timer is about to schedule; nil while there is no timer.
	next map[*Subscription]struct{}
}

// changed notes that the lists or the configuration of this replica have changed.
func (r *repeats) changed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastChange = time.Now()
}

// opened schedules a subscription whose client may have read a list, elsewhere, that lacks a recent
// change. Nobody knows which changes its view has, so that it need not be about one.
func (r *repeats) opened(sub *Subscription) {
	r.mu.Lock()
	isRecent := time.Since(r.lastChange) < recently
	r.mu.Unlock()
	if isRecent {
		r.add(sub)
	}
}

// add has a subscription woken 10 and 90 seconds from now. Subscriptions that are added at about
// the same time share timers: a busy server would otherwise make very many.
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
		for sub := range due { // of those that are closed, nobody receives the mark
			signal(sub.wake)
		}
	}
	time.AfterFunc(soon, wake)
	time.AfterFunc(later, wake)
}
