package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// probeSilence is the time that a child process may leave server/discover unanswered before it is
	// treated as legacy.
	probeSilence = 3 * time.Second
	// handshakeTimeout bounds the start of a server and the handshake, unless the server's timeout
	// is longer. A child that writes to its stderr gets busyHandshakeTimeout.
	handshakeTimeout     = time.Minute
	busyHandshakeTimeout = 5 * time.Minute
	// anyLegacy, in place of a revision, stands for all legacy revisions. Negotiation then needs no probe.
	anyLegacy = "legacy"
)

// errLegacy means that the probe found a legacy server.
var errLegacy = errors.New("legacy era")

// agreement is the result of a negotiation.
type agreement struct {
	revision     string
	capabilities wire.Object
}

// negotiate detects which revisions the server speaks and agrees on one:
//
//	protocol = a revision      speak that revision
//	server/discover answered   modern: the newest revision that both support
//	a modern error             modern; initialize only if the error lists no modern revision that the gateway supports
//	any other error, silence   legacy: initialize, except after HTTP 401, 403 and 429
//	initialize fails on HTTP   HTTP+SSE after a 4xx or 5xx without a JSON-RPC error, apart from the statuses in mayBeSSE,
//	                           unless the transport is configured, see [Dialer.Connect]
//	no answer at all           give up, over HTTP; a child process that exited is started again, without the probe
//
// (2026-07-28, stdio and Streamable HTTP, "Backward Compatibility".)
func (s *Session) negotiate(ctx context.Context) (agreement, error) {
	protocol := s.server.Protocol
	if s.server.Transport == config.SSE && !wire.KnownLegacy(protocol) {
		protocol = anyLegacy // the modern era has no such transport
	}
	if protocol == anyLegacy || wire.KnownLegacy(protocol) {
		return s.initialize(ctx, protocol)
	}
	// With a configured modern revision, silence does not mean that the server is legacy: there is
	// no other revision to try.
	pinned := protocol == wire.Rev20260728
	// A child process may ignore unknown methods.
	if s.server.Transport == config.Stdio && !pinned {
		return s.negotiateWithSilence(ctx)
	}
	agreed, err := s.discover(ctx)
	if refused, ok := errors.AsType[*wire.Error](err); ok && refused.Code == wire.UnsupportedProtocolVersion {
		agreed, err = s.discover(ctx) // the error lists the refused revision as supported: try once more
	}
	switch {
	case !errors.Is(err, errLegacy):
		return agreed, err
	case pinned:
		return agreement{}, &ProtocolError{problem: wire.Discover + ": the server does not support " + protocol, wrongRevision: true}
	}
	return s.initialize(ctx, protocol)
}

// negotiateWithSilence probes a server that may ignore the probe. A server that takes long to start
// reads the probe and initialize at the same time.
func (s *Session) negotiateWithSilence(ctx context.Context) (agreement, error) {
	probing, cancel := context.WithTimeout(ctx, probeSilence)
	agreed, err := s.discover(probing)
	cancel()
	isSilent := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
	switch {
	case errors.Is(err, ErrExited):
		return agreement{}, fmt.Errorf("%w: %w", errProbeFatal, err)
	case !isSilent && !errors.Is(err, errLegacy):
		return agreed, err
	}
	agreed, err = s.initialize(ctx, anyLegacy)
	switch {
	case !isSilent || err == nil || ctx.Err() != nil:
	case errors.Is(err, ErrExited): // it exited after the probe, which it read first
		return agreement{}, fmt.Errorf("%w: %w", errProbeFatal, err)
	default: // the server may have been starting, and may speak only the modern era
		probing, cancel := context.WithTimeout(ctx, probeSilence)
		defer cancel()
		if modern, err := s.discover(probing); err == nil {
			return modern, nil
		}
	}
	return agreed, err
}

// discover requests the revisions of a modern server. It returns errLegacy if the server is not
// modern.
func (s *Session) discover(ctx context.Context) (agreement, error) {
	result, err := s.handshake(ctx, &request{
		method: wire.Discover, revision: wire.Rev20260728,
		params: outgoingParams(ctx, wire.Rev20260728, s.dialer.implementation, &Relay{}, 0, nil, nil),
	})
	if err != nil {
		return agreement{}, probeError(err)
	}
	if !offersModern(result.Get("supportedVersions")) { // some legacy servers return a result for any method
		return agreement{}, errLegacy
	}
	return agreement{wire.Rev20260728, result.Object("capabilities")}, nil
}

// initialize opens a session with a legacy server. It requests the revision in protocol, or the newest legacy revision
// if protocol is not a legacy revision. [Session.open] completes the handshake with the initialized notification.
func (s *Session) initialize(ctx context.Context, protocol string) (agreement, error) {
	wanted := wire.LatestLegacy
	if wire.KnownLegacy(protocol) {
		wanted = protocol
	}
	// A legacy server chooses the revision, which may be older than the requested one.
	params := wire.Object{}.
		With("protocolVersion", wire.Quote(wanted)).
		With("capabilities", s.opts.Capabilities.Object().JSON()).
		With("clientInfo", s.dialer.implementation)
	result, err := s.handshake(ctx, &request{method: wire.Initialize, params: params.JSON()})
	if err != nil {
		return agreement{}, fmt.Errorf("%s: %w", wire.Initialize, err)
	}
	revision, _ := result.Text("protocolVersion")
	if !wire.KnownLegacy(revision) || (wire.KnownLegacy(protocol) && revision != protocol) {
		problem := fmt.Sprintf("%s: asked for revision %s, but the server insists on %q", wire.Initialize, wanted, revision)
		return agreement{}, &ProtocolError{problem: problem, wrongRevision: true}
	}
	return agreement{revision, result.Object("capabilities")}, nil
}

// handshake sends a request of the handshake and returns the result's members. Over HTTP, each request has the
// upstream's timeout. A child process may still be starting, so only limitHandshake bounds its requests.
func (s *Session) handshake(ctx context.Context, r *request) (wire.Object, error) {
	if s.server.Transport != config.Stdio {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.server.Timeout)
		defer cancel()
	}
	r.id = s.lastID.Add(1)
	if err := s.transport.roundTrip(ctx, r); err != nil {
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

// probeError returns errLegacy if the error of a probe comes from a legacy server, and otherwise
// returns the error unchanged.
func probeError(err error) error {
	status, isStatus := errors.AsType[*StatusError](err)
	answer, isAnswer := errors.AsType[*wire.Error](err)
	_, isNonsense := errors.AsType[*ProtocolError](err)
	switch {
	case isStatus && status.RefusesCaller(): // the refusal shows nothing about the era
	case isAnswer && answer.Code == wire.UnsupportedProtocolVersion:
		supported := wire.Members(answer.Data).Get("supported")
		if !offersModern(supported) {
			return errLegacy
		}
		return fmt.Errorf("%s: the server says that it speaks %s, but refused %s: %w", wire.Discover, supported, wire.Rev20260728, answer)
	case isAnswer && (answer.Code == wire.HeaderMismatch || answer.Code == wire.MissingClientCapability): // errors of the modern era
		return fmt.Errorf("%s: %w", wire.Discover, answer)
	case isAnswer, isNonsense, isStatus, errors.Is(err, errStreamEnded):
		return errLegacy
	}
	return fmt.Errorf("%s: %w", wire.Discover, err)
}

// offersModern reports whether a JSON array contains the modern revision.
func offersModern(revisions jsontext.Value) bool {
	offered, _ := wire.ParseArray(revisions) // nil if it is not an array
	return slices.ContainsFunc(offered, func(v jsontext.Value) bool {
		text, _ := wire.Text(v)
		return text == wire.Rev20260728
	})
}

// mayBeSSE reports whether a server that failed the handshake may speak HTTP+SSE only: it is up,
// accepts the caller, and does not answer a POST with MCP.
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

// Declared are the capabilities for prompts and skills that a server declared at the start of a session.
type Declared struct {
	Prompts, Completions, Logging, Skills bool
	// Notifies is true if the server sends list_changed for its prompts.
	Notifies bool
}

// declaredBy reads a capabilities object by the rules of a revision.
func declaredBy(capabilities wire.Object, revision string) Declared {
	skills := capabilities.Object(extensions).Get(wire.ExtensionSkills)
	return Declared{
		Prompts: capabilities.Get("prompts") != nil,
		// Revision 2024-11-05 had no way to declare completions.
		Completions: capabilities.Get("completions") != nil || revision == wire.Rev20241105,
		Logging:     capabilities.Get("logging") != nil,
		Skills:      skills.Kind() == '{',
		Notifies:    string(capabilities.Object("prompts").Get("listChanged")) == "true",
	}
}

// promptless explains that a server offers no prompts.
func promptless(capabilities wire.Object) *Cause {
	declared := exslices.CastFunc(capabilities, func(m wire.Member) string { return printable(m.Name) })
	what := "it declares " + strings.Join(declared, ", ")
	if len(declared) == 0 {
		what = "it declares nothing"
	}
	return new(NoPromptsOffered.Cause(wire.Clip(what, maxQuoted)))
}
