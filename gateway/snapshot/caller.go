package snapshot

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
)

// Source holds the snapshot in use. Package publish replaces it; all other packages only read it.
// The zero value holds none.
type Source struct{ current atomic.Pointer[Snapshot] }

// Current returns the snapshot in use.
func (src *Source) Current() *Snapshot { return src.current.Load() }

// Swap puts a snapshot into use.
func (src *Source) Swap(next *Snapshot) {
	next.published = time.Now()
	before := src.current.Swap(next)
	if before == nil {
		return
	}
	// Close the channels after the swap, because a goroutine that wakes up reads the current
	// snapshot.
	close(before.superseded)
	if before.Generation != next.Generation {
		close(before.replaced)
	}
}

// startupBound is the time after the gateway's start in which requests wait for upstreams that have
// neither answered nor failed yet.
const startupBound = 2 * time.Second

// ErrPrincipalChanged means that, since the last reload, a credential belongs to another principal.
var ErrPrincipalChanged = errors.New("the credential belongs to another principal since the configuration was reloaded")

// Caller is the client of a request or stream: a principal, and the configuration that accepted its
// credential. It does not refer to a snapshot, so that an idle stream does not keep an old catalog
// in memory.
type Caller struct {
	Principal  policy.Principal
	Generation *Generation

	credential identity.Credential
}

// Authenticate returns the caller with a credential, or the error with which the snapshot's
// configuration refuses it.
func (s *Snapshot) Authenticate(ctx context.Context, credential identity.Credential) (Caller, error) {
	principal, err := credential(ctx, s.Identity)
	return Caller{Principal: principal, Generation: s.Generation, credential: credential}, err
}

// Renew returns the current snapshot. If a reload has replaced the caller's generation, it
// authenticates the caller again. changed reports whether the principal differs in any way. After
// an error the caller is unchanged and must not be served any more.
func (src *Source) Renew(ctx context.Context, c *Caller) (s *Snapshot, changed bool, err error) {
	s = src.Current()
	if s.Generation == c.Generation {
		return s, false, nil
	}
	principal, err := c.credential(ctx, s.Identity)
	if err != nil {
		return s, false, err
	}
	// A stream counts against the limits of its principal, so it cannot move to another one.
	if principal.Key() != c.Principal.Key() {
		return s, false, ErrPrincipalChanged
	}
	changed = !reflect.DeepEqual(principal, c.Principal)
	c.Principal, c.Generation = principal, s.Generation
	return s, changed, nil
}

// Reauthenticate is [Source.Renew] for an open connection. If the issuer of the credential cannot
// be reached, the caller keeps its principal, because nothing has refused it.
func (src *Source) Reauthenticate(ctx context.Context, c *Caller) (s *Snapshot, changed bool, err error) {
	s, changed, err = src.Renew(ctx, c)
	// A principal without a Source was not accepted by an issuer.
	if errors.Is(err, identity.ErrUnavailable) && c.Principal.Source != "" {
		c.Generation = s.Generation
		return s, false, nil
	}
	return s, changed, err
}

// AwaitTried waits until each upstream that the caller may know of has answered or failed once: for
// at most two seconds after the gateway's start, or until ctx ends. It returns the snapshot to use
// from then on. Its errors are the errors of [Source.Renew].
func (src *Source) AwaitTried(ctx context.Context, c *Caller, s *Snapshot) (*Snapshot, error) {
	if s.AllTried() || c.isTried(s) { // the usual case, without a timer
		return s, nil
	}
	bound := time.NewTimer(time.Until(s.started.Add(startupBound)))
	defer bound.Stop()
	for !c.isTried(s) {
		select {
		case <-s.superseded:
		case <-bound.C:
			return s, nil
		case <-ctx.Done():
			return s, nil
		}
		var err error
		if s, _, err = src.Renew(ctx, c); err != nil {
			return s, err
		}
	}
	return s, nil
}

// isTried reports whether each upstream that the caller may know of has answered or failed once.
func (c *Caller) isTried(s *Snapshot) bool {
	audience := s.Policy.Audience(c.Principal)
	return !slices.ContainsFunc(s.untried, func(i int) bool { return audience.SeesTeam(s.Upstreams[i].Team) })
}
