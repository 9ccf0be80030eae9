package publish

import (
	"context"
	"sync"
	"time"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/client"
)

// Subscription notifies one client when its view changes. At most one notification is pending, even
// for a slow client.
type Subscription struct {
	publisher *Publisher
	wake      chan struct{} // receives a value if the view has changed since the last receive

	// subscriptions.mu guards the fields below.
	principal *policy.Principal
	view      viewOf
	// changed is the time of the first change since the last receive from wake. It is zero if there
	// was no change.
	changed time.Time
}

// viewOf is the view of a principal in one snapshot.
type viewOf struct {
	policy      *policy.Policy
	audience    *policy.Audience
	fingerprint catalog.Fingerprint
	number      uint64 // the snapshot's number
}

// subscriptions holds the open subscriptions. The zero value is ready.
type subscriptions struct {
	mu  sync.Mutex // guards all, and fields of Subscription
	all map[*Subscription]struct{}
}

// Subscribe opens a subscription of a principal. It assumes that the client has the current view.
// Call [Subscription.Close] when the client leaves.
func (p *Publisher) Subscribe(principal policy.Principal) *Subscription {
	sub := &Subscription{publisher: p, wake: make(chan struct{}, 1)}
	sub.setPrincipal(principal)
	p.repeats.opened(sub)
	return sub
}

// setPrincipal sets the principal of a subscription, and the current view of that principal.
func (sub *Subscription) setPrincipal(principal policy.Principal) {
	p, all := sub.publisher, &sub.publisher.subscriptions
	for {
		s := p.Current()
		audience := s.Policy.Audience(principal)
		view := viewOf{s.Policy, audience, s.View(audience).Fingerprint(), s.Number()} // evaluate conditions outside of the lock
		all.mu.Lock()
		// If another snapshot is swapped in after this check, announceChanges finds this
		// subscription, because it looks for subscriptions after the swap.
		if p.Current() == s {
			sub.principal, sub.view = &principal, view
			if all.all == nil {
				all.all = map[*Subscription]struct{}{}
			}
			all.all[sub] = struct{}{}
			all.mu.Unlock()
			return
		}
		all.mu.Unlock()
	}
}

// Changed returns a channel that receives a value after a change of the view. A list that is read
// after receiving the value contains that change or a later change.
func (sub *Subscription) Changed() <-chan struct{} { return sub.wake }

// TakeChange returns the time of the first change in this notification, and resets it. Call it after
// receiving a value from [Subscription.Changed]. The time is zero for a repeated notification, and for
// a change of the principal.
func (sub *Subscription) TakeChange() time.Time {
	all := &sub.publisher.subscriptions
	all.mu.Lock()
	defer all.mu.Unlock()
	changed := sub.changed
	sub.changed = time.Time{}
	return changed
}

// View returns the fingerprint of the view, for a notification that is sent now.
func (sub *Subscription) View() catalog.Fingerprint {
	all := &sub.publisher.subscriptions
	all.mu.Lock()
	defer all.mu.Unlock()
	return sub.view.fingerprint
}

// Reauthenticate lets a stream continue after a reload. An error means that its caller is refused, see
// [snapshot.Source.Reauthenticate]. If the principal has changed, Reauthenticate wakes the
// subscription, because the client's last list may come from either view.
func (sub *Subscription) Reauthenticate(ctx context.Context, c *snapshot.Caller) error {
	_, changed, err := sub.publisher.Reauthenticate(ctx, c)
	if changed {
		sub.setPrincipal(c.Principal)
		sub.notify()
	}
	return err
}

// notify wakes the subscription now and, if there are other replicas, again later.
func (sub *Subscription) notify() {
	signal(sub.wake)
	sub.publisher.repeats.add(sub)
}

// Close ends the subscription.
func (sub *Subscription) Close() {
	all := &sub.publisher.subscriptions
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.all, sub)
}

// Subscriptions returns the number of open subscriptions.
func (p *Publisher) Subscriptions() int {
	p.subscriptions.mu.Lock()
	defer p.subscriptions.mu.Unlock()
	return len(p.subscriptions.all)
}

// announceChanges wakes the subscriptions whose view differs between consecutive snapshots, until ctx
// ends. If snapshots were dropped, it wakes all subscriptions, because a view may have changed and
// changed back.
func (p *Publisher) announceChanges(ctx context.Context) error {
	for {
		select {
		case <-p.announcements.wake:
		case <-ctx.Done():
			return nil
		}
		due, overrun := p.announcements.take()
		for _, s := range due {
			p.repeats.changed()
			for audience, subs := range p.subscriptions.byAudience(s) {
				// Evaluating conditions for all audiences may take long, so check for the end of ctx
				// each time.
				if ctx.Err() != nil {
					return nil //nolint:nilerr // the end of ctx ends the announcements
				}
				view := viewOf{s.Policy, audience, p.fingerprint(s, audience), s.Number()}
				for _, sub := range subs {
					sub.show(view, s.Published(), overrun)
				}
			}
			overrun = false
		}
	}
}

// byAudience returns the open subscriptions by the audience of their principal in a snapshot. It
// leaves out subscriptions that already have the view of this snapshot or a later one.
func (s *subscriptions) byAudience(next *snapshot.Snapshot) map[*policy.Audience][]*Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[*policy.Audience][]*Subscription{}
	for sub := range s.all {
		if sub.view.number >= next.Number() {
			continue
		}
		if sub.view.policy != next.Policy {
			sub.view.policy, sub.view.audience = next.Policy, next.Policy.Audience(*sub.principal)
		}
		all[sub.view.audience] = append(all[sub.view.audience], sub)
	}
	return all
}

// fingerprint returns the fingerprint of an audience's view. If building the view panics, the
// fingerprint is zero, which practically no view has. The audience's subscriptions are then woken,
// and its lists return the error.
func (p *Publisher) fingerprint(s *snapshot.Snapshot, audience *policy.Audience) (view catalog.Fingerprint) {
	_ = client.RecoverToError(p.logger, func() error {
		view = s.View(audience).Fingerprint()
		return nil
	})
	return view
}

// show moves a subscription to the next view. It wakes the subscription if the view differs, or if
// always is true. It compares with the previous view, not with the last notified one: a slow client
// may have listed between two changes that cancel each other.
func (sub *Subscription) show(next viewOf, published time.Time, always bool) {
	all := &sub.publisher.subscriptions
	all.mu.Lock()
	defer all.mu.Unlock()
	// The principal may have changed since byAudience, and with it the view.
	if next.number <= sub.view.number || next.audience != sub.view.audience {
		return
	}
	differs := next.fingerprint != sub.view.fingerprint
	if sub.view = next; !differs && !always {
		return
	}
	if differs && sub.changed.IsZero() {
		sub.changed = published
	}
	sub.notify()
}
