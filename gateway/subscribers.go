package gateway

import (
	"sync"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
)

// subscribers are the clients that want to know when their view changes. The zero value is ready.
type subscribers struct {
	mu  sync.Mutex // guards all, and what of each is not its wake
	all map[*policy.Audience]map[*subscriber]struct{}
}

// subscriber is one client's stream. What is pending for it is one bit, however slow it is.
type subscriber struct {
	who *policy.Principal
	// audience is who's, by the policy of the present edition.
	audience *policy.Audience
	// wake holds at most one mark: that the view has become another since the stream began or the last mark was taken.
	wake chan struct{}
	view catalog.Fingerprint
}

// subscribe registers a stream of a principal, whose client is taken to know the present view. To be followed by leave.
func (g *Gateway) subscribe(who policy.Principal) *subscriber {
	sub := &subscriber{who: &who, wake: make(chan struct{}, 1)}
	for {
		var e *edition
		e, sub.audience = g.present(who)
		sub.view = e.view(sub.audience).Fingerprint()
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
	s.enter(sub)
	return true
}

// enter and remove are called with the lock held.
func (s *subscribers) enter(sub *subscriber) {
	if s.all == nil {
		s.all = map[*policy.Audience]map[*subscriber]struct{}{}
	}
	if s.all[sub.audience] == nil {
		s.all[sub.audience] = map[*subscriber]struct{}{}
	}
	s.all[sub.audience][sub] = struct{}{}
}

func (s *subscribers) remove(sub *subscriber) {
	delete(s.all[sub.audience], sub)
	if len(s.all[sub.audience]) == 0 {
		delete(s.all, sub.audience)
	}
}

func (s *subscribers) leave(sub *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(sub)
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
		sub.show(view)
	}
}

// show wakes a stream whose view has become another. Called with the lock held.
func (sub *subscriber) show(view catalog.Fingerprint) {
	if sub.view == view {
		return
	}
	sub.view = view
	sub.tell()
}

// tell marks a stream. It never blocks.
func (sub *subscriber) tell() {
	select {
	case sub.wake <- struct{}{}:
	default:
	}
}

// moveStreams takes all streams over to the policy of the present edition, and wakes those whose view is another there.
// Called by the edition's writer only.
func (g *Gateway) moveStreams() {
	for sub, who := range g.callers() {
		e, audience := g.present(*who)
		g.move(sub, who, audience, e.view(audience).Fingerprint())
	}
}

func (s *subscribers) callers() map[*subscriber]*policy.Principal {
	s.mu.Lock()
	defer s.mu.Unlock()
	callers := map[*subscriber]*policy.Principal{}
	for _, audience := range s.all {
		for sub := range audience {
			callers[sub] = sub.who
		}
	}
	return callers
}

// move gives a stream the audience that its principal has now, unless it has left or become another principal's.
func (s *subscribers) move(sub *subscriber, who *policy.Principal, audience *policy.Audience, view catalog.Fingerprint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.all[sub.audience][sub]; !open || sub.who != who {
		return
	}
	s.remove(sub)
	sub.audience = audience
	s.enter(sub)
	sub.show(view)
}

// become makes a stream another principal's, and wakes it: what its client listed may be what either sees.
func (g *Gateway) become(sub *subscriber, who policy.Principal) {
	for {
		e, audience := g.present(who)
		view := e.view(audience).Fingerprint()
		if g.exchange(sub, &who, audience, view, func() bool { return g.edition.Load() == e }) {
			return
		}
	}
}

// exchange is the part of become that needs the lock. Like add, it does nothing where that is settled too late.
func (s *subscribers) exchange(
	sub *subscriber, who *policy.Principal, audience *policy.Audience, view catalog.Fingerprint, current func() bool,
) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !current() {
		return false
	}
	s.remove(sub)
	sub.who, sub.audience, sub.view = who, audience, view
	s.enter(sub)
	sub.tell()
	return true
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
