package snapshot

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
)

// startupBound is how long after the start requests wait for upstreams that have neither answered
// nor failed yet.
const startupBound = 2 * time.Second

// ErrPrincipalChanged means that a credential belongs to another principal since the last reload.
var ErrPrincipalChanged = errors.New("the credential belongs to another principal since the configuration was reloaded")

// Caller is the client of a request or stream: a principal, and the configuration by which its
// credential was accepted. It does not keep a snapshot alive, so that an idle stream does not hold
// on to an old catalog.
type Caller struct {
	Principal  policy.Principal
	Generation *Generation

	credential identity.Credential
}

// Authenticate returns the caller with a credential, by the configuration of the snapshot.
func (s *Snapshot) Authenticate(ctx context.Context, credential identity.Credential) (Caller, error) {
	principal, err := credential(ctx, s.Identity)
	return Caller{Principal: principal, Generation: s.Generation, credential: credential}, err
}

// Renew returns the current snapshot. If a reload has replaced the caller's generation, it
// authenticates the caller again, and changed reports whether anything about the principal differs.
// On an error the caller is as it was, and must not be served any more.
func (p *Publisher) Renew(ctx context.Context, c *Caller) (s *Snapshot, changed bool, err error) {
	s = p.Current()
	if s.Generation == c.Generation {
		return s, false, nil
	}
	principal, err := c.credential(ctx, s.Identity)
	if err != nil {
		return s, false, err
	}
	// A stream belongs to a principal, by which it is counted and found: it cannot become
	// another's.
	if principal.Key() != c.Principal.Key() {
		return s, false, ErrPrincipalChanged
	}
	changed = !reflect.DeepEqual(principal, c.Principal)
	c.Principal, c.Generation = principal, s.Generation
	return s, changed, nil
}

// Retain is [Publisher.Renew] for a connection that is open already: an issuer that cannot be
// reached has not refused a caller that it has authenticated before, who then stays the same
// principal.
func (p *Publisher) Retain(ctx context.Context, c *Caller) (s *Snapshot, changed bool, err error) {
	s, changed, err = p.Renew(ctx, c)
	// Without a source, no issuer has accepted the caller either.
	if errors.Is(err, identity.ErrUnavailable) && c.Principal.Source != "" {
		c.Generation = s.Generation
		return s, false, nil
	}
	return s, changed, err
}

// Settle waits until each upstream of which the caller may see anything has answered or failed
// once, at most until two seconds after the start or until ctx ends. It returns the snapshot to use
// from then on. The error is that of [Publisher.Renew].
func (p *Publisher) Settle(ctx context.Context, c *Caller, s *Snapshot) (*Snapshot, error) {
	if s.AllTried() || c.isSettled(s) { // nearly always: no timer is needed
		return s, nil
	}
	bound := time.NewTimer(time.Until(p.started.Add(startupBound)))
	defer bound.Stop()
	for !c.isSettled(s) {
		select {
		case <-s.superseded:
		case <-bound.C:
			return s, nil
		case <-ctx.Done():
			return s, nil
		}
		var err error
		if s, _, err = p.Renew(ctx, c); err != nil {
			return s, err
		}
	}
	return s, nil
}

// isSettled reports whether each upstream of which the caller may see anything has answered or
// failed once.
func (c *Caller) isSettled(s *Snapshot) bool {
	audience := s.Policy.Audience(c.Principal)
	return !slices.ContainsFunc(s.untried, func(i int) bool { return audience.SeesTeam(s.Upstreams[i].Team) })
}
