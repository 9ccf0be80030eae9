package requests

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// run is the state of one request while it is handled. The request itself does not change.
type run struct {
	r     *Request
	era   *era // the client's era
	scope *Scope

	// snapshot and caller are initially the request's. They change together: during startup, and if
	// a reload replaces an upstream before the call.
	snapshot *snapshot.Snapshot
	caller   snapshot.Caller

	operation operation
	target    target
	// screening checks the upstream's messages during the request.
	screening screening
	call      call
	outcome   outcome
	// asks is true if the result asks the client for input.
	asks bool
	// took is the time from Received until the response was ready.
	took time.Duration
	// line is the request's line in the audit log. recorder.record completes it; set a field earlier where its
	// value is known.
	line audit.Line
	// memory holds the upstream's result. It is used again with the run.
	memory []byte
}

// isReusable reports whether nothing refers to the run once its request has been answered. Only a
// call hands the run to others: to the upstream as its caller, and to a relay.
func (x *run) isReusable() bool {
	wasCalled := x.call.request.Method != ""
	return !wasCalled || x.r.isReusable()
}

// reset prepares a run for its next request.
func (x *run) reset() {
	memory := x.memory
	if cap(memory) > maxMemory {
		memory = nil
	}
	*x = run{memory: memory}
}

// maxMemory bounds the memory for results that a run keeps, in bytes.
const maxMemory = 64 << 10

// runs are reusable runs.
var runs = sync.Pool{New: func() any { return new(run) }} //nolint:gochecknoglobals // a pool is shared by nature

// newRun returns the run of a request. It ends with the scope.
func newRun(r *Request, scope *Scope) *run {
	x, _ := runs.Get().(*run)
	x.r, x.era, x.scope, x.snapshot, x.caller = r, eraOf(r), scope, r.Snapshot, r.Caller
	scope.run = x
	return x
}

// Key returns the client that pays for the request's memory, see [ownerOf]. It implements
// [upstream.Caller].
func (x *run) Key() string { return ownerOf(&x.caller.Principal, x.r.Client) }

// upstreamCaller returns the caller for the upstream's fairness between callers: each caller has
// its own line of waiting calls and its own count of failures. It is nil for callers in this
// process, which have no key.
func (x *run) upstreamCaller() upstream.Caller {
	if x.r.local != nil {
		return nil
	}
	return x
}

// assertedCaller returns the principal for assertions to servers. It is nil for an operator, who
// may look at another principal's view, and for a command without a principal.
func (x *run) assertedCaller() *policy.Principal {
	switch {
	case x.r.local == nil:
		return &x.caller.Principal
	case x.r.local.Operator != nil:
		return nil
	}
	return x.r.local.Principal
}

// renew moves a request to the current snapshot. If a reload has replaced the configuration, it
// authenticates the caller again, and returns an error if the caller is refused.
func (h *Handler) renew(ctx context.Context, x *run) (err error) {
	// A caller in this process has no credential that a new configuration could refuse.
	if x.r.local != nil {
		x.snapshot = h.source.Current()
		return nil
	}
	s, _, err := h.source.Renew(ctx, &x.caller)
	if err != nil {
		return refusedAfterReload(err)
	}
	x.snapshot = s
	return nil
}

// awaitTried waits, during startup, until the caller's upstreams have answered or failed once.
func (h *Handler) awaitTried(ctx context.Context, x *run) error {
	s, err := h.source.AwaitTried(ctx, &x.caller, x.snapshot)
	if err != nil {
		return refusedAfterReload(err)
	}
	x.snapshot = s
	return nil
}

// refusedAfterReload returns the error for a client whose credential a reload no longer accepts, or
// whose issuer could not be reached.
func refusedAfterReload(err error) error {
	if errors.Is(err, identity.ErrUnavailable) {
		return errors.Join(wire.NewError(wire.InternalError,
			"Service unavailable: the identity provider did not answer"), err)
	}
	return errors.Join(wire.NewError(wire.InvalidRequest,
		"Unauthorized: the configuration was reloaded and does not accept the credential"), err)
}
