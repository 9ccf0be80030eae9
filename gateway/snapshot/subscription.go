package snapshot

import (
	"context"
	"sync"
	"time"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/upstream/client"
)

// Subscription is one client's wish to be told when its view changes. At most one bit is pending
// for it, however slow the client is.
type Subscription struct {
	publisher *Publisher
	wake      chan struct{} // holds at most one mark: the view has changed since the last one was taken

	// Guarded by subscriptions.mu.
	principal *policy.Principal
	audience  *policy.Audience // the principal's, by the policy of the current snapshot
	view      catalog.Fingerprint
	seen      uint64 // the number of the snapshot of the view
	// changed is when the first change was published that wake is about; zero where it is about
	// none.
	changed time.Time
}

// subscriptions are the open ones by audience. The zero value is ready.
type subscriptions struct {
	mu  sync.Mutex // guards all, and the fields of each subscription that say so
	all map[*policy.Audience]map[*Subscription]struct{}
}

// Subscribe opens a subscription of a principal, whose client is taken to know the current view.
// [Subscription.Close] must follow.
func (p *Publisher) Subscribe(principal policy.Principal) *Subscription {
	sub := &Subscription{publisher: p, principal: &principal, wake: make(chan struct{}, 1)}
	for {
		s := p.Current()
		sub.audience = s.Policy.Audience(principal)
		sub.view, sub.seen = s.View(sub.audience).Fingerprint(), s.number
		// A snapshot that is swapped in after this wakes the subscription: announceChanges looks
		// for subscriptions after the swap.
		if p.subscriptions.add(sub, func() bool { return p.Current() == s }) {
			p.repeats.opened(sub)
			return sub
		}
	}
}

// Changed receives a value after the view has changed. Whoever lists then sees the change that it
// is about, or a later one.
func (sub *Subscription) Changed() <-chan struct{} { return sub.wake }

// TakeChange returns when the first change was published that the client is told of now, to be
// called after a value of [Subscription.Changed]. It is zero if the client is told because its
// principal has changed.
func (sub *Subscription) TakeChange() time.Time {
	all := &sub.publisher.subscriptions
	all.mu.Lock()
	defer all.mu.Unlock()
	changed := sub.changed
	sub.changed = time.Time{}
	return changed
}

// View returns the fingerprint of the view that a notification sent now is about.
func (sub *Subscription) View() catalog.Fingerprint {
	all := &sub.publisher.subscriptions
	all.mu.Lock()
	defer all.mu.Unlock()
	return sub.view
}

// Retain lets a stream continue after a reload. On an error its caller is not accepted any more,
// see [Publisher.Retain].
func (sub *Subscription) Retain(ctx context.Context, c *Caller) error {
	_, changed, err := sub.publisher.Retain(ctx, c)
	if changed {
		sub.setPrincipal(c.Principal)
	}
	return err
}

// setPrincipal gives the subscription another principal and wakes it: its client may have listed
// either one's view.
func (sub *Subscription) setPrincipal(principal policy.Principal) {
	p := sub.publisher
	for {
		s := p.Current()
		audience := s.Policy.Audience(principal)
		if p.subscriptions.exchange(sub, &principal, audience, s, func() bool { return p.Current() == s }) {
			p.repeats.add(sub)
			return
		}
	}
}

// Close ends the subscription.
func (sub *Subscription) Close() {
	all := &sub.publisher.subscriptions
	all.mu.Lock()
	defer all.mu.Unlock()
	all.removeLocked(sub)
}

// Subscriptions returns how many are open.
func (p *Publisher) Subscriptions() int {
	all := &p.subscriptions
	all.mu.Lock()
	defer all.mu.Unlock()
	n := 0
	for _, audience := range all.all {
		n += len(audience)
	}
	return n
}

// add adds a subscription if, under the lock, the snapshot that it was made from is still current.
func (s *subscriptions) add(sub *Subscription, current func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !current() {
		return false
	}
	s.addLocked(sub)
	return true
}

// exchange changes the principal of a subscription under the same condition as add.
func (s *subscriptions) exchange(
	sub *Subscription, principal *policy.Principal, audience *policy.Audience, snapshot *Snapshot, current func() bool,
) bool {
	view := snapshot.View(audience).Fingerprint() // outside of the lock
	s.mu.Lock()
	defer s.mu.Unlock()
	if !current() {
		return false
	}
	s.removeLocked(sub)
	sub.principal, sub.audience, sub.view, sub.seen = principal, audience, view, snapshot.number
	s.addLocked(sub)
	signal(sub.wake)
	return true
}

func (s *subscriptions) addLocked(sub *Subscription) {
	if s.all == nil {
		s.all = map[*policy.Audience]map[*Subscription]struct{}{}
	}
	if s.all[sub.audience] == nil {
		s.all[sub.audience] = map[*Subscription]struct{}{}
	}
	s.all[sub.audience][sub] = struct{}{}
}

func (s *subscriptions) removeLocked(sub *Subscription) {
	delete(s.all[sub.audience], sub)
	if len(s.all[sub.audience]) == 0 {
		delete(s.all, sub.audience)
	}
}

// announceChanges wakes the subscriptions whose view differs between one snapshot and the next,
// until ctx ends. Where snapshots were left out, it wakes all: a view may have changed and changed
// back.
func (p *Publisher) announceChanges(ctx context.Context) error {
	generation := p.Current().Generation
	for {
		select {
		case <-p.announcements.wake:
		case <-ctx.Done():
			return nil
		}
		due, overrun := p.announcements.take()
		for _, s := range due {
			p.repeats.changed()
			// Another policy has other audiences, so that each subscription is looked at by itself.
			if s.Generation != generation || overrun {
				p.moveSubscriptions(s, overrun)
				generation, overrun = s.Generation, false
				continue
			}
			for _, audience := range p.subscriptions.audiences() {
				// Evaluating conditions for all audiences may take long.
				if ctx.Err() != nil {
					break
				}
				// The view is built outside of the lock.
				p.subscriptions.show(audience, p.fingerprint(s, audience), s)
			}
		}
	}
}

// fingerprint returns that of an audience's view or, where building that panics, one that hardly any
// view has: the audience is woken, and its lists say what is wrong.
func (p *Publisher) fingerprint(s *Snapshot, audience *policy.Audience) (view catalog.Fingerprint) {
	_ = client.Guard(p.logger, func() error {
		view = s.View(audience).Fingerprint()
		return nil
	})
	return view
}

func (s *subscriptions) audiences() []*policy.Audience {
	s.mu.Lock()
	defer s.mu.Unlock()
	audiences := make([]*policy.Audience, 0, len(s.all))
	for audience := range s.all {
		audiences = append(audiences, audience)
	}
	return audiences
}

func (s *subscriptions) show(audience *policy.Audience, view catalog.Fingerprint, snapshot *Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for sub := range s.all[audience] {
		sub.showLocked(view, snapshot)
	}
}

// showLocked wakes a subscription that is not yet at a snapshot if its view differs there. It
// compares with the previous view and not with the one that the client was last told of: a view
// that changed back while the client was slow may have been listed in between.
func (sub *Subscription) showLocked(view catalog.Fingerprint, snapshot *Snapshot) {
	if snapshot.number <= sub.seen {
		return
	}
	sub.seen = snapshot.number
	if sub.view != view {
		sub.view = view
		if sub.changed.IsZero() {
			sub.changed = snapshot.published
		}
		signal(sub.wake)
		sub.publisher.repeats.add(sub)
	}
}

// moveSubscriptions moves all subscriptions to the policy of a snapshot and wakes those whose view
// differs there, or all.
func (p *Publisher) moveSubscriptions(s *Snapshot, all bool) {
	for sub, principal := range p.subscriptions.principals() {
		audience := s.Policy.Audience(*principal)
		if p.subscriptions.move(sub, principal, audience, p.fingerprint(s, audience), s) && all {
			signal(sub.wake)
			p.repeats.add(sub)
		}
	}
}

func (s *subscriptions) principals() map[*Subscription]*policy.Principal {
	s.mu.Lock()
	defer s.mu.Unlock()
	principals := map[*Subscription]*policy.Principal{}
	for _, audience := range s.all {
		for sub := range audience {
			principals[sub] = sub.principal
		}
	}
	return principals
}

// move gives a subscription the audience that its principal has in a snapshot, unless it was
// closed, has another principal or is at a later one. It reports whether it did.
func (s *subscriptions) move(
	sub *Subscription, principal *policy.Principal, audience *policy.Audience, view catalog.Fingerprint, snapshot *Snapshot,
) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The view was computed outside of the lock, while any of this may have happened.
	if _, open := s.all[sub.audience][sub]; !open || sub.principal != principal || snapshot.number <= sub.seen {
		return false
	}
	s.removeLocked(sub)
	sub.audience = audience
	s.addLocked(sub)
	sub.showLocked(view, snapshot)
	return true
}
