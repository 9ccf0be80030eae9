package gateway

import (
	"sync"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
)

// subscribers are the clients that want to know when their view changes. The zero value is ready.
type subscribers struct {
	mu  sync.Mutex // guards all, and the view of each
	all map[*policy.Audience]map[*subscriber]struct{}
}

// subscriber is one client's stream. What is pending for it is one bit, however slow it is.
type subscriber struct {
	audience *policy.Audience
	// wake holds at most one mark: that the view has become another since the stream began or the last mark was taken.
	wake chan struct{}
	view catalog.Fingerprint
}

// subscribe registers a stream of the audience, whose client is taken to know the present view. To be followed by
// leave.
func (g *Gateway) subscribe(audience *policy.Audience) *subscriber {
	sub := &subscriber{audience: audience, wake: make(chan struct{}, 1)}
	for {
		e := g.edition.Load()
		sub.view = e.view(audience).Fingerprint()
		// An edition that is swapped in after this wakes the stream: its writer looks for subscribers after the swap.
		if g.add(sub, func() bool { return g.edition.Load() == e }) {
			return sub
		}
	}
}

// add registers a stream if, with that settled, what it was made from is still current.
func (s *subscribers) add(sub *subscriber, current func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !current() {
		return false
	}
	if s.all == nil {
		s.all = map[*policy.Audience]map[*subscriber]struct{}{}
	}
	if s.all[sub.audience] == nil {
		s.all[sub.audience] = map[*subscriber]struct{}{}
	}
	s.all[sub.audience][sub] = struct{}{}
	return true
}

func (s *subscribers) leave(sub *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all[sub.audience], sub)
	if len(s.all[sub.audience]) == 0 {
		delete(s.all, sub.audience)
	}
}

// wakeChanged marks the streams whose view is another in the present edition. It looks at the one that requests get
// already, so that nobody can be woken before the change is there to be listed. Called by the edition's writer only.
func (g *Gateway) wakeChanged() {
	e := g.edition.Load()
	for _, audience := range g.audiences() {
		g.wake(audience, e.view(audience).Fingerprint()) // computed outside of the lock
	}
}

func (s *subscribers) audiences() []*policy.Audience {
	s.mu.Lock()
	defer s.mu.Unlock()
	audiences := make([]*policy.Audience, 0, len(s.all))
	for audience := range s.all {
		audiences = append(audiences, audience)
	}
	return audiences
}

// wake compares with the last change rather than with what the client was last told: a view that changed and changed
// back while the client was slow may have been listed in between.
func (s *subscribers) wake(audience *policy.Audience, view catalog.Fingerprint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for sub := range s.all[audience] {
		if sub.view == view {
			continue
		}
		sub.view = view
		select {
		case sub.wake <- struct{}{}:
		default:
		}
	}
}

// seen returns the fingerprint of the view that a notification sent now is about.
func (s *subscribers) seen(sub *subscriber) catalog.Fingerprint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sub.view
}

// streams returns how many are open.
func (s *subscribers) streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, audience := range s.all {
		n += len(audience)
	}
	return n
}
