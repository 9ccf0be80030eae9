package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// probeSilence is how long a child process may leave server/discover unanswered before it is
	// taken for legacy.
	probeSilence = 3 * time.Second
	// handshakeTimeout is how long a server may take to start and to agree on a revision, unless its
	// timeout is longer. A child that writes to its stderr may take busyHandshakeTimeout.
	handshakeTimeout     = time.Minute
	busyHandshakeTimeout = 5 * time.Minute
	// anyLegacy in place of a revision skips the probe.
	anyLegacy = "legacy"
)

// errLegacy is the probe's finding that the server knows nothing of the modern era.
var errLegacy = errors.New("legacy era")

// negotiator detects which revisions a server speaks and agrees on one:
//
//	protocol = a revision      speak that one
//	server/discover answered   modern: the newest revision that both support
//	a modern error             modern; initialize only if the error lists no modern revision that is known here
//	any other error, silence   legacy: initialize
//	HTTP refuses that too      HTTP+SSE, unless the transport is configured, see [Dialer.Connect]
//	no answer at all           give up, over HTTP; a child process that exited is started again, without the probe
//
// (2026-07-28, stdio and Streamable HTTP, "Backward Compatibility".)
type negotiator struct {
	transport transport
	lastID    *atomic.Int64
	logger    *slog.Logger
	// self is how the gateway introduces itself, and capabilities are what it declares to a legacy
	// server.
	self         jsontext.Value
	capabilities wire.Capabilities
}

// agreement is the outcome of a negotiation.
type agreement struct {
	revision     string
	capabilities wire.Object
}

func (n *negotiator) negotiate(ctx context.Context, server config.Upstream) (agreement, error) {
	protocol := server.Protocol
	if server.Transport == config.SSE && !wire.KnownLegacy(protocol) {
		protocol = anyLegacy // the modern era has no such transport
	}
	if protocol == anyLegacy || wire.KnownLegacy(protocol) {
		return n.initialize(ctx, protocol)
	}
	// With a pinned modern revision, silence cannot mean legacy: there is nothing else to try.
	pinned := protocol == wire.Rev20260728
	// A child process may leave unanswered what it does not know.
	if server.Transport == config.Stdio && !pinned {
		return n.negotiateWithSilence(ctx)
	}
	agreed, err := n.discover(ctx)
	if refused, ok := errors.AsType[*wire.Error](err); ok && refused.Code == wire.UnsupportedProtocolVersion {
		agreed, err = n.discover(ctx) // it lists as supported what it refused: see whether it insists
	}
	switch {
	case !errors.Is(err, errLegacy):
		return agreed, err
	case pinned:
		return agreement{}, &ProtocolError{problem: wire.Discover + ": the server does not support " + protocol, isOfRevision: true}
	}
	return n.initialize(ctx, protocol)
}

// negotiateWithSilence probes a server that may leave the probe unanswered. A slow modern server
// may answer it after its silence was taken for an answer, so from then on the success of either
// counts, and the handshake's before the probe's.
func (n *negotiator) negotiateWithSilence(ctx context.Context) (agreement, error) {
	discovered, cancel := n.inBackground(ctx, n.discover)
	defer cancel()
	select {
	case probe := <-discovered:
		switch {
		case errors.Is(probe.err, errLegacy):
			return n.initialize(ctx, anyLegacy)
		case errors.Is(probe.err, ErrExited):
			return agreement{}, fmt.Errorf("%w: %w", errProbeFatal, probe.err)
		}
		return probe.agreement, probe.err
	case <-time.After(probeSilence):
	}
	initialized, cancel := n.inBackground(ctx, func(ctx context.Context) (agreement, error) { return n.initialize(ctx, anyLegacy) })
	defer cancel()
	var probe, handshake outcome
	select {
	case probe = <-discovered:
		if probe.err == nil {
			// It has the handshake as well. If it speaks both eras, it accepts that, and knows no
			// modern method in the session that follows.
			select {
			case handshake = <-initialized:
				if handshake.err == nil {
					return handshake.agreement, nil
				}
			case <-time.After(probeSilence):
			}
			return probe.agreement, nil
		}
		handshake = <-initialized
	case handshake = <-initialized:
		if handshake.err == nil {
			return handshake.agreement, nil
		}
		if probe = <-discovered; probe.err == nil {
			return probe.agreement, nil
		}
	}
	// It took long to start, and then read the probe first.
	if handshake.err != nil && errors.Is(probe.err, ErrExited) {
		return agreement{}, fmt.Errorf("%w: %w", errProbeFatal, probe.err)
	}
	return handshake.agreement, handshake.err
}

// outcome is how one of two concurrent requests ended.
type outcome struct {
	agreement
	err error
}

func (n *negotiator) inBackground(
	ctx context.Context, request func(context.Context) (agreement, error),
) (<-chan outcome, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan outcome, 1)
	go func() {
		var agreed agreement
		err := Guard(n.logger, func() (err error) {
			agreed, err = request(ctx)
			return err
		})
		done <- outcome{agreed, err}
	}()
	return done, cancel
}

// discover asks a modern server for its revisions. It returns errLegacy for a server that is not
// modern.
func (n *negotiator) discover(ctx context.Context) (agreement, error) {
	result, err := n.roundTrip(ctx, &request{
		method: wire.Discover, revision: wire.Rev20260728,
		params: outgoingParams(ctx, wire.Rev20260728, n.self, &Relay{}, 0, nil),
	})
	if err != nil {
		return agreement{}, probeError(err)
	}
	// Some legacy servers answer any method with a result.
	revision := newestModern(result.Get("supportedVersions"))
	if revision == "" {
		return agreement{}, errLegacy
	}
	return agreement{revision, result.Object("capabilities")}, nil
}

// initialize asks a legacy server for a session. Protocol is the one revision to speak, or anything
// else for the newest. The handshake is complete only with the initialized notification.
func (n *negotiator) initialize(ctx context.Context, protocol string) (agreement, error) {
	wanted := wire.LatestLegacy
	if wire.KnownLegacy(protocol) {
		wanted = protocol
	}
	// A legacy server answers with the revision that it wants to speak, which may be an older one.
	params := wire.Object{}.
		With("protocolVersion", wire.Quote(wanted)).
		With("capabilities", n.capabilities.Object().JSON()).
		With("clientInfo", n.self)
	result, err := n.roundTrip(ctx, &request{method: wire.Initialize, params: params.JSON()})
	if err != nil {
		return agreement{}, fmt.Errorf("%s: %w", wire.Initialize, err)
	}
	revision, _ := result.Text("protocolVersion")
	if !wire.KnownLegacy(revision) || (wire.KnownLegacy(protocol) && revision != protocol) {
		problem := fmt.Sprintf("%s: asked for revision %s, but the server "+
			"insists on %q", wire.Initialize, wanted, revision)
		return agreement{}, &ProtocolError{problem: problem, isOfRevision: true}
	}
	return agreement{revision, result.Object("capabilities")}, nil
}

// roundTrip sends a request of the handshake and returns the result's members.
func (n *negotiator) roundTrip(ctx context.Context, r *request) (wire.Object, error) {
	r.id = n.lastID.Add(1)
	if err := n.transport.roundTrip(ctx, r); err != nil {
		if status, ok := errors.AsType[*StatusError](err); ok {
			status.inHandshake = true
		}
		return nil, err
	}
	if r.response.Error != nil {
		return nil, responseError(r.response.Error)
	}
	result, err := wire.ParseObject(r.response.Result)
	if err != nil {
		return nil, &ProtocolError{problem: err.Error()}
	}
	return result, nil
}

// probeError decides what the error of a probe says about the era.
func probeError(err error) error {
	// A server that refuses the caller, or does not answer at all, has said nothing about it.
	status, hasStatus := errors.AsType[*StatusError](err)
	if hasStatus && status.RefusesCaller() {
		return fmt.Errorf("%s: %w", wire.Discover, err)
	}
	if wireErr, ok := errors.AsType[*wire.Error](err); ok {
		return modernError(wireErr)
	}
	if _, ok := errors.AsType[*ProtocolError](err); ok || hasStatus || errors.Is(err, errStreamEnded) {
		return errLegacy
	}
	return fmt.Errorf("%s: %w", wire.Discover, err)
}

// modernError decides what the JSON-RPC error of a probe says about the era.
func modernError(err *wire.Error) error {
	switch err.Code {
	case wire.UnsupportedProtocolVersion:
		supported := wire.Members(err.Data).Get("supported")
		if newestModern(supported) == "" {
			return errLegacy
		}
		return fmt.Errorf("%s: the server says that it speaks %s, but "+
			"refused %s: %w", wire.Discover, supported, wire.Rev20260728, err)
	case wire.HeaderMismatch, wire.MissingClientCapability:
		return fmt.Errorf("%s: %w", wire.Discover, err)
	}
	return errLegacy
}

// newestModern returns the newest modern revision of a JSON array that is known here, or "".
func newestModern(list jsontext.Value) string {
	offered, err := wire.ParseArray(list)
	if err != nil {
		return ""
	}
	for _, revision := range wire.Revisions() {
		if wire.Modern(revision) && slices.ContainsFunc(offered, func(v jsontext.Value) bool {
			text, _ := wire.Text(v)
			return text == revision
		}) {
			return revision
		}
	}
	return ""
}

// mayBeSSE reports whether the error of a handshake leaves it possible that the server knows only
// HTTP+SSE: it is up, does not refuse the caller, and does not answer a POST in terms of MCP.
func mayBeSSE(err error) bool {
	status, ok := errors.AsType[*StatusError](err)
	if !ok || status.unnamed != nil || status.RefusesCaller() {
		return false
	}
	switch status.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false // a proxy answered in place of a server that is down
	}
	return status.Status >= http.StatusBadRequest
}

// Declared is what a server declared about itself when its session began.
type Declared struct {
	// JSON is the capabilities object, as it was sent.
	JSON jsontext.Value

	prompts, listChanged, completions, logging, skills bool
}

// declaredBy returns what a capabilities object declares in a revision.
func declaredBy(capabilities wire.Object, revision string) Declared {
	skills := capabilities.Object(extensions).Get(wire.ExtensionSkills)
	return Declared{
		JSON:        capabilities.JSON(),
		prompts:     capabilities.Get("prompts") != nil,
		listChanged: string(capabilities.Object("prompts").Get("listChanged")) == "true",
		// Revision 2024-11-05 had no way to declare completions.
		completions: capabilities.Get("completions") != nil || revision == wire.Rev20241105,
		logging:     capabilities.Get("logging") != nil,
		skills:      skills.Kind() == '{',
	}
}

// same reports whether two declarations are the same as far as it matters to prompts.
func (d Declared) same(other Declared) bool {
	return d.prompts == other.prompts && d.listChanged == other.listChanged &&
		d.completions == other.completions && d.logging == other.logging && d.skills == other.skills
}

// Prompts reports whether the server has prompts.
func (d Declared) Prompts() bool { return d.prompts }

// Completes reports whether the server completes arguments.
func (d Declared) Completes() bool { return d.completions }

// Notifies reports whether the server says when its list of prompts changes.
func (d Declared) Notifies() bool { return d.prompts && d.listChanged }

// Promptless explains that the server has no prompts, or returns nil if it has.
func (d Declared) Promptless() *Cause {
	if d.prompts {
		return nil
	}
	var declared []string
	for _, member := range wire.Members(d.JSON) {
		declared = append(declared, printable(member.Name))
	}
	what := "it declares " + strings.Join(declared, ", ")
	if len(declared) == 0 {
		what = "it declares nothing"
	}
	c := newCause(NoPromptsOffered, wire.Clip(what, maxQuoted))
	return &c
}
