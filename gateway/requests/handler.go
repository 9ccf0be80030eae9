package requests

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/cluster"
	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/loglimit"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Name is the name by which the gateway identifies itself to clients and servers.
const Name = "promptweir"

// Options are what a [Handler] needs beside the snapshots.
type Options struct {
	Logger *slog.Logger
	// Version is what the gateway tells clients.
	Version string
	// Ledger counts what responses hold until they are written; nil counts for this handler alone.
	Ledger *edge.Ledger
	// Audit records requests; nil records none.
	Audit *audit.Log
	// Shared counts requests over all replicas; nil where there are none.
	Shared SharedLimits
	// Forwarder reaches other replicas; nil where gets are not forwarded.
	Forwarder *cluster.Forwarder
}

// Handler carries out requests. Its methods are safe for concurrent use.
type Handler struct {
	publisher *snapshot.Publisher
	logger    *slog.Logger
	metrics   *instruments
	// info is the gateway's Implementation, as JSON.
	info jsontext.Value

	schemas *schemas
	limits  *limits
	parked  parked
	ledger  *edge.Ledger
	audit   recorder
	gets    promptGets
}

// New returns a handler of requests whose snapshots come from a publisher.
func New(publisher *snapshot.Publisher, opts Options) *Handler {
	if opts.Ledger == nil {
		opts.Ledger = edge.New(edge.Options{})
	}
	// Each failed get could log a line.
	logger := loglimit.New(opts.Logger, 1, "upstream", "reason", "prompt", "principal")
	h := &Handler{
		publisher: publisher, logger: logger, metrics: newInstruments(), info: serverInfo(opts.Version),
		schemas: newSchemas(logger), limits: newLimits(opts.Shared), ledger: opts.Ledger,
		audit:  recorder{opts.Audit, publisher, logger},
		parked: parked{ledger: opts.Ledger, forwarder: opts.Forwarder},
	}
	return h
}

// Close ends the parked gets, waits for them, and parks no more.
func (h *Handler) Close() { h.parked.close() }

// Parked returns how many gets wait for their clients to come back with replies.
func (h *Handler) Parked() int { return h.parked.len() }

// Traced reports whether anyone receives spans.
func (h *Handler) Traced() bool { return h.metrics.traced }

// Handle carries a request out and returns its response, whose JSON begins in the memory of buffer.
// [Response.Release] must be called in the end.
func (h *Handler) Handle(ctx context.Context, r *Request, buffer []byte) (out Response) {
	var broke error // beside result, which has a recovery of its own, so that a panic there is recorded
	defer func() {
		if broke != nil {
			out.Release()
			refusal := wireError(ctx, h.logger, broke)
			out = Response{JSON: wire.AppendError(nil, r.Message.ID, refusal), Code: refusal.Code}
		}
	}()
	// Deferred calls run in reverse: this one catches the panic, and the one above answers for it.
	defer recovered(&broke)
	ctx = h.metrics.start(ctx, r)
	// The head is there before it is known whether there is a result, which is then appended behind
	// it without a copy. An error begins the buffer anew.
	out = Response{JSON: wire.AppendResultHead(buffer[:0], r.Message.ID), inParts: r.InParts}
	err := h.result(ctx, r, &out)
	if err == nil {
		// Before the outcome is recorded: a response that does not fit is a refusal.
		err = h.hold(r, &out)
	}
	refusal := h.conclude(ctx, r, &out, &err)
	// After conclude, which makes a refusal of what cannot be recorded.
	if r.Message.Method == wire.PromptsGet || r.target.use {
		h.gets.count(r.target.seen(), outcomeOf(ctx, r, &out, err))
	}
	r.end(err, refusal)
	if refusal == nil {
		out.JSON = append(out.JSON, '}')
		return out
	}
	if result := toolError(r, refusal, h.info); result != nil {
		out.JSON = wire.AppendResult(out.JSON[:0], r.Message.ID, result)
		return out
	}
	out.JSON, out.Code = wire.AppendError(out.JSON[:0], r.Message.ID, refusal), refusal.Code
	return out
}

// conclude records how a request ended and returns the error that its caller gets, nil for the
// result. If it cannot be recorded although it must be, that becomes the error.
func (h *Handler) conclude(ctx context.Context, r *Request, out *Response, err *error) (refusal *wire.Error) {
	if *err != nil {
		refusal = wireError(ctx, h.logger, *err)
	}
	if h.audit.records(r) {
		// The line has the time until it is written; end sets it again, with what the writing took.
		r.took = time.Since(r.Received)
		if h.audit.record(ctx, r, out, *err, refusal) != nil {
			refusal = errAudit()
			*err = refusal
		}
	}
	if refusal != nil { // the caller gets neither the result nor a requestState to come back with
		out.held.Release()
		out.large = nil
		h.parked.abandon(out.parked, r.Caller.Principal.Key())
	}
	return refusal
}

// hold counts what the response holds until [Response.Release]. A small one fits into buffers that
// its connection has anyway.
func (h *Handler) hold(r *Request, out *Response) error {
	size := len(out.JSON) + len(out.large)
	if size < edge.Least {
		return nil
	}
	held, ok := h.ledger.Acquire(r.Snapshot.Config.Gateway.MaxBuffered, r.Key(), out.upstream, size)
	if !ok {
		out.JSON = nil // the error must not keep its memory
		return errUnread()
	}
	out.held = held
	return nil
}

// result appends the result of a request. If a reload replaces the upstream of a get or completion
// before it is called, the caller is authenticated again, and the request begins again under the
// new configuration.
func (h *Handler) result(ctx context.Context, r *Request, out *Response) (err error) {
	defer recovered(&err)
	// Before anything is looked up: the answer must not depend on whether the prompt is visible.
	if err := r.checkSpelling(); err != nil {
		return err
	}
	if r.tool.refusal != nil {
		return r.tool.refusal
	}
	for callsUpstream(r) {
		// Called by their names: through a function value, the response of every request would escape
		// to the heap.
		switch r.Message.Method {
		case wire.PromptsGet:
			err = h.get(ctx, r, out)
		case wire.Complete:
			err = h.complete(ctx, r, out)
		case wire.DirectoryRead:
			err = readDirectory(ctx, h, r, out)
		default:
			err = h.read(ctx, r, out)
		}
		if !errors.Is(err, upstream.ErrRetired) {
			return err
		}
		// The next attempt is counted by the limits of its own configuration, and must not count
		// beside this one.
		out.Release()
		if err := h.renew(ctx, r); err != nil {
			return err
		}
	}
	switch r.Message.Method {
	case wire.PromptsList:
		return h.list(ctx, r, out)
	case wire.ToolsList:
		if r.Variant == config.VariantTools {
			return listTools(r, out, h.info)
		}
	}
	if r.Serves(r.Message.Method) {
		switch r.Message.Method {
		case wire.SkillsList:
			return h.list(ctx, r, out)
		case wire.SkillsGet:
			return h.describe(ctx, r, out)
		case wire.ResourcesList, wire.TemplatesList:
			result := upstream.Result{JSON: emptyLists[r.Message.Method], Revision: r.Revision}
			return out.appendResult(r, r.cacheable(result), h.info, inputNotAllowed)
		}
	}
	if r.Modern() {
		if r.Message.Method != wire.Discover {
			return methodNotFound(r.Message.Method)
		}
		out.append(discovery(r, h.info))
		return nil
	}
	return answerLegacy(r, out)
}

// answerLegacy answers what only the legacy era has.
func answerLegacy(r *Request, out *Response) error {
	switch r.Message.Method {
	case wire.Ping:
		out.append(emptyObject)
	case wire.SetLogLevel:
		return r.setLogLevel(out)
	case wire.ToolsList, wire.ResourcesList, wire.TemplatesList:
		out.append(emptyLists[r.Message.Method])
	default:
		return methodNotFound(r.Message.Method)
	}
	return nil
}

// callsUpstream reports whether a request's answer comes from a server.
func callsUpstream(r *Request) bool {
	switch r.Message.Method {
	case wire.PromptsGet, wire.Complete:
		return true
	case wire.ResourcesRead, wire.DirectoryRead:
		return r.Serves(r.Message.Method)
	}
	return false
}

// emptyObject is the result of requests that have none.
var emptyObject = jsontext.Value("{}") //nolint:gochecknoglobals // a constant

// emptyLists answer legacy clients that list what was never declared: some do so anyway, and drop
// the whole server for an error.
var emptyLists = map[string]jsontext.Value{ //nolint:gochecknoglobals // a constant table
	wire.ToolsList:     jsontext.Value(`{"tools":[]}`),
	wire.ResourcesList: jsontext.Value(`{"resources":[]}`),
	wire.TemplatesList: jsontext.Value(`{"resourceTemplates":[]}`),
}

// setLogLevel carries out logging/setLevel.
func (r *Request) setLogLevel(out *Response) error {
	level, _ := r.Params.Text("level")
	if wire.Severity(level) == 0 {
		return ErrLogLevel()
	}
	if r.SetLogLevel != nil {
		r.SetLogLevel(level)
	}
	out.append(emptyObject)
	return nil
}

// serverInfo returns the Implementation of a gateway of a version.
func serverInfo(version string) jsontext.Value {
	if version == "" {
		version = "0"
	}
	return wire.Object{}.With("name", wire.Quote(Name)).With("version", wire.Quote(version)).JSON()
}

// ServerInfo returns the gateway's Implementation as JSON.
func (h *Handler) ServerInfo() jsontext.Value { return h.info }

// capabilities returns what the gateway declares to the client. 2024-11-05 cannot declare
// completions.
func capabilities(r *Request) jsontext.Value {
	declared := wire.Object{}.
		With("prompts", jsontext.Value(`{"listChanged":true}`)).
		With("logging", emptyObject)
	if r.Revision != wire.Rev20241105 {
		declared = declared.With("completions", emptyObject)
	}
	if r.Serves(wire.ResourcesRead) {
		// Without subscribe and listChanged, since resources/list is always empty.
		declared = declared.With("resources", emptyObject)
	}
	if r.Serves(wire.SkillsList) {
		declared = declared.With("extensions", jsontext.Value(`{"`+wire.ExtensionSkills+`":{"directoryRead":true}}`))
	}
	if r.Variant == config.VariantTools {
		declared = declared.With("tools", emptyObject)
	}
	return declared.JSON()
}

// Initialization returns the result of initialize, with the revision that was agreed on.
func (h *Handler) Initialization(r *Request) jsontext.Value {
	result := wire.Object{}.
		With("protocolVersion", wire.Quote(r.Revision)).
		With("capabilities", capabilities(r)).
		With("serverInfo", h.info)
	if text := r.Snapshot.Config.Gateway.Instructions; text != "" {
		result = result.With("instructions", wire.Quote(text))
	}
	return result.JSON()
}

// discoveryTTL is how long a client may rely on the result of server/discover, in milliseconds.
const discoveryTTL = "3600000"

// discovery returns the result of server/discover.
func discovery(r *Request, info jsontext.Value) jsontext.Value {
	result := wire.Object{}.
		With("resultType", quotedComplete).
		With("supportedVersions", supportedVersions()).
		With("capabilities", capabilities(r)).
		With("_meta", wire.Object{}.With(wire.MetaServerInfo, info).JSON())
	if text := r.Snapshot.Config.Gateway.Instructions; text != "" {
		result = result.With("instructions", wire.Quote(text))
	}
	return result.With("ttlMs", jsontext.Value(discoveryTTL)).With("cacheScope", wire.Quote("public")).JSON()
}
