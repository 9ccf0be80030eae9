package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// probeSilence is how long a child process may keep silent after server/discover before it is taken for legacy.
	probeSilence = 3 * time.Second
	// connectBound is how long a server may take to start and to agree on a revision.
	connectBound = time.Minute
	// anyLegacy in the place of a revision skips the probe.
	anyLegacy = "legacy"
)

// errLegacy is the probe's finding that the server knows nothing of the modern era.
var errLegacy = errors.New("legacy era")

// open finds out which revision the server speaks and agrees on it:
//
//	protocol = a revision      speak that one
//	server/discover answered   modern: the newest revision that both know
//	a modern error             modern; initialize only if the error's list has nothing modern that is known here
//	any other error, silence   legacy: initialize
//	HTTP refuses that too      HTTP+SSE, where no transport was given, see [Connect]
//	no answer at all           nothing, over HTTP; a child process that exited is started again, without the probe
//
// (2026-07-28, stdio and Streamable HTTP, "Backward Compatibility".)
func (s *Session) open(ctx context.Context, protocol string) error {
	ctx, cancel := context.WithTimeout(ctx, connectBound)
	defer cancel()
	agreed, err := s.negotiate(ctx, protocol)
	if err != nil {
		return err
	}
	s.adopt(agreed)
	if wire.Modern(s.Revision) {
		return nil
	}
	if err := s.transport.send(ctx, wire.AppendNotification(nil, wire.Initialized, nil)); err != nil {
		return fmt.Errorf("%s: %w", wire.Initialized, err)
	}
	return nil
}

// agreement is what the two sides found out about each other.
type agreement struct {
	revision     string
	capabilities wire.Object
}

func (s *Session) negotiate(ctx context.Context, protocol string) (agreement, error) {
	if protocol == anyLegacy || wire.KnownLegacy(protocol) {
		return s.initialize(ctx, protocol)
	}
	pinned := protocol == wire.Rev20260728
	if s.transport.mayKeepSilent() && !pinned {
		return s.negotiateInSilence(ctx)
	}
	agreed, err := s.discover(ctx)
	if refused, ok := errors.AsType[*wire.Error](err); ok && refused.Code == wire.UnsupportedProtocolVersion {
		agreed, err = s.discover(ctx) // it lists as supported what it refused: see whether it means it
	}
	switch {
	case !errors.Is(err, errLegacy):
		return agreed, err
	case pinned:
		return agreement{}, &protocolError{problem: wire.Discover + ": the server does not speak " + protocol}
	}
	return s.initialize(ctx, protocol)
}

// outcome is how one of two concurrent questions ended.
type outcome struct {
	agreement
	err error
}

// ask runs a question in the background.
func ask(ctx context.Context, question func(context.Context) (agreement, error)) (<-chan outcome, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	answer := make(chan outcome, 1)
	go func() {
		agreed, err := question(ctx)
		answer <- outcome{agreed, err}
	}()
	return answer, cancel
}

// negotiateInSilence probes a peer that may leave the probe unanswered. A slow modern server may answer it after its
// silence has been taken for an answer, so from then on the first good answer to either question counts.
func (s *Session) negotiateInSilence(ctx context.Context) (agreement, error) {
	discovered, cancel := ask(ctx, s.discover)
	defer cancel()
	silence := time.NewTimer(probeSilence)
	defer silence.Stop()
	select {
	case probe := <-discovered:
		switch {
		case errors.Is(probe.err, errLegacy):
			return s.initialize(ctx, anyLegacy)
		case errors.Is(probe.err, errExited):
			return agreement{}, fmt.Errorf("%w: %w", errProbeFatal, probe.err)
		}
		return probe.agreement, probe.err
	case <-silence.C:
	}
	initialized, cancel := ask(ctx, func(ctx context.Context) (agreement, error) { return s.initialize(ctx, anyLegacy) })
	defer cancel()
	select {
	case probe := <-discovered:
		if probe.err == nil {
			return probe.agreement, nil
		}
		handshake := <-initialized
		return handshake.agreement, handshake.err
	case handshake := <-initialized:
		if handshake.err == nil {
			return handshake.agreement, nil
		}
		if probe := <-discovered; probe.err == nil {
			return probe.agreement, nil
		}
		return agreement{}, handshake.err
	}
}

// discover asks a modern server what it is. It returns errLegacy for a server that is not modern.
func (s *Session) discover(ctx context.Context) (agreement, error) {
	r := &request{
		id: s.ids.Add(1), method: wire.Discover, revision: wire.Rev20260728,
		params: outgoingParams(ctx, wire.Rev20260728, s.self, &Client{}, 0, nil),
	}
	err := s.transport.roundTrip(ctx, r)
	if err == nil && r.answer.Error != nil {
		err = peerError(r.answer.Error)
	}
	if err != nil {
		return agreement{}, probeError(err)
	}
	result, err := wire.ParseObject(r.answer.Result)
	if err != nil {
		return agreement{}, errLegacy
	}
	revision := newestModern(result.Get("supportedVersions"))
	if revision == "" {
		return agreement{}, errLegacy
	}
	return agreement{revision, result.Object("capabilities")}, nil
}

// probeError decides what a probe's error says of the era. A server that refuses the caller, or does not answer at
// all, has said nothing about it.
func probeError(err error) error {
	status, hasStatus := errors.AsType[*statusError](err)
	if hasStatus && status.refuses() {
		return fmt.Errorf("%s: %w", wire.Discover, err)
	}
	if wireErr, ok := errors.AsType[*wire.Error](err); ok {
		return modernError(wireErr)
	}
	if _, ok := errors.AsType[*protocolError](err); ok || hasStatus || errors.Is(err, errClosed) {
		return errLegacy
	}
	return fmt.Errorf("%s: %w", wire.Discover, err)
}

// mayBeSSE reports whether the error of a handshake leaves it possible that the server knows HTTP+SSE only: it is there,
// minds nobody's credentials, and says nothing of MCP to a POST.
func mayBeSSE(err error) bool {
	status, ok := errors.AsType[*statusError](err)
	return ok && status.status >= http.StatusBadRequest && status.answer == nil && reason(status) == BadResponse
}

// modernError decides what a probe's JSON-RPC error says of the era.
func modernError(err *wire.Error) error {
	switch err.Code {
	case wire.UnsupportedProtocolVersion:
		data, parseErr := wire.ParseObject(err.Data)
		if parseErr != nil {
			return errLegacy
		}
		supported := data.Get("supported")
		if newestModern(supported) == "" {
			return errLegacy
		}
		return fmt.Errorf("%s: the server speaks %s but refused %s: %w", wire.Discover, supported, wire.Rev20260728, err)
	case wire.HeaderMismatch, wire.MissingClientCapability:
		return fmt.Errorf("%s: %w", wire.Discover, err)
	}
	return errLegacy
}

// newestModern returns the newest modern revision in a JSON array that is known here, or "".
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

// initialize asks a legacy server for a session. Protocol is the one revision to speak, or anything else for the
// newest. The handshake is complete only with the initialized notification.
func (s *Session) initialize(ctx context.Context, protocol string) (agreement, error) {
	wanted := wire.LatestLegacy
	if wire.KnownLegacy(protocol) {
		wanted = protocol
	}
	params := wire.Object{}.
		With("protocolVersion", wire.Quote(wanted)).
		With("capabilities", s.declared.JSON()).
		With("clientInfo", s.self)
	r := &request{id: s.ids.Add(1), method: wire.Initialize, params: params.JSON()}
	err := s.transport.roundTrip(ctx, r)
	if err == nil && r.answer.Error != nil {
		err = peerError(r.answer.Error)
	}
	if err != nil {
		return agreement{}, fmt.Errorf("%s: %w", wire.Initialize, err)
	}
	result, err := wire.ParseObject(r.answer.Result)
	if err != nil {
		return agreement{}, &protocolError{problem: wire.Initialize + ": " + err.Error()}
	}
	revision, _ := result.Text("protocolVersion")
	if !wire.KnownLegacy(revision) || (wire.KnownLegacy(protocol) && revision != protocol) {
		problem := fmt.Sprintf("%s: asked for %s, the server insists on %q", wire.Initialize, wanted, revision)
		return agreement{}, &protocolError{problem: problem}
	}
	return agreement{revision, result.Object("capabilities")}, nil
}

// adopt makes what was agreed on the session's.
func (s *Session) adopt(agreed agreement) {
	s.Revision = agreed.revision
	s.modern.Store(wire.Modern(agreed.revision))
	s.capabilities = capabilities{
		prompts:     agreed.capabilities.Get("prompts") != nil,
		listChanged: string(agreed.capabilities.Object("prompts").Get("listChanged")) == "true",
		completions: agreed.capabilities.Get("completions") != nil,
		logging:     agreed.capabilities.Get("logging") != nil,
	}
	s.offered = agreed.capabilities.JSON()
	s.transport.agree(agreed.revision)
}
