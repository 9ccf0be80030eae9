package requests

import (
	"cmp"
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

// Options configure a [Handler].
type Options struct {
	Logger *slog.Logger
	// Version is the gateway's version in its serverInfo. If it is empty, "0" is sent.
	Version string
	// Ledger counts the memory of responses until they are written. If it is nil, [New] makes one.
	Ledger *edge.Ledger
	// Audit records requests. If it is nil, nothing is recorded.
	Audit *audit.Log
	// Shared counts requests over all replicas. It is nil if there are no other replicas.
	Shared SharedLimits
	// Forwarder reaches other replicas. It is nil if requests are not forwarded.
	Forwarder *cluster.Forwarder
}

// Handler carries out requests. Its methods are safe for concurrent use.
type Handler struct {
	source  *snapshot.Source
	logger  *slog.Logger
	metrics *instruments
	// info is the gateway's Implementation, as JSON.
	info jsontext.Value

	schemas *schemas
	limits  *limits
	parked  parked
	ledger  *edge.Ledger
	audit   recorder
	gets    promptGets
}

// New returns a handler. It takes newer snapshots from source during startup and after a reload.
func New(source *snapshot.Source, opts Options) *Handler {
	if opts.Ledger == nil {
		opts.Ledger = edge.New(edge.Options{})
	}
	// The logger is limited, because each failed get could log a line.
	logger := loglimit.New(opts.Logger, 1, "upstream", "reason", "prompt", "principal")
	return &Handler{
		source: source, logger: logger, metrics: newInstruments(), info: serverInfo(opts.Version),
		schemas: newSchemas(logger), limits: newLimits(opts.Shared), ledger: opts.Ledger,
		audit:  recorder{opts.Audit, logger},
		parked: parked{ledger: opts.Ledger, forwarder: opts.Forwarder},
	}
}

// Close cancels the parked gets and waits for their calls to return. Later gets are not parked.
func (h *Handler) Close() { h.parked.close() }

// Parked returns the number of parked gets.
func (h *Handler) Parked() int { return h.parked.len() }

// Handle carries out a request and returns its response, whose JSON may use the memory of buffer.
// Close the scope once the response is written.
func (h *Handler) Handle(ctx context.Context, r *Request, scope *Scope, buffer []byte) (out Response) {
	var broke error // a panic in this function; answer recovers its own
	defer func() {
		if broke != nil {
			out = errorResponse(buffer, r, wireError(ctx, h.logger, broke))
			out.Ready = time.Now()
		}
	}()
	// Deferred calls run in reverse: this one catches the panic, and the one above responds.
	defer recovered(&broke)
	x := newRun(r, scope)
	ctx = h.metrics.start(ctx, x)
	result, err := h.answer(ctx, x)
	scope.result.Release() // the copies of a file that was read are no longer needed
	if err == nil {
		out = x.respond(buffer, result, h.info)
		// Count the response before conclude records the outcome, because a response that does not
		// fit is refused. A small response is not counted: it fits in the buffers of its
		// connection.
		least := edge.Least
		if r.InParts && scope.Connection == (edge.Reservation{}) { // over HTTP/2, requests share a connection
			least = edge.LeastForSocket
		}
		if size := len(out.JSON) + len(out.large); size >= least {
			err = h.hold(x, x.outcome.owner, size)
		}
	}
	refusal := h.conclude(ctx, x, &err)
	// Count after conclude, which refuses a request that cannot be recorded.
	if r.Message.Method == wire.PromptsGet || x.target.readsSkill {
		h.gets.count(x.target.seen(), x.outcomeOf(ctx, err))
	}
	h.metrics.end(ctx, x, err, refusal)
	if refusal == nil {
		x.scope.endParked = nil // the client gets the requestState and can return
	} else if result, ok := r.toolError(refusal); ok {
		out = x.respond(buffer, result, h.info)
	} else {
		out = errorResponse(buffer, r, refusal)
	}
	out.Ready = r.Received.Add(x.took)
	return out
}

func errorResponse(buffer []byte, r *Request, refusal *wire.Error) Response {
	return Response{JSON: wire.AppendError(buffer[:0], r.Message.ID, refusal), Code: refusal.Code}
}

// conclude writes the request to the audit log, and returns the error for its caller, or nil if the
// caller gets the result. If the line cannot be written, it sets err and returns [errAudit].
func (h *Handler) conclude(ctx context.Context, x *run, err *error) (refusal *wire.Error) {
	if *err != nil {
		refusal = wireError(ctx, h.logger, *err)
	}
	if h.audit.record(ctx, x, *err, refusal) != nil {
		refusal = errAudit()
		*err = refusal
	}
	return refusal
}

// hold counts the memory of a response for the client and for an upstream, in place of the
// response's earlier count. It returns [errUnread] if the bytes do not fit.
func (h *Handler) hold(x *run, owner string, bytes int) (err error) {
	x.scope.result.Release()
	held, ok := h.ledger.Acquire(x.snapshot.Config.Gateway.MaxBuffered, x.Key(), owner, bytes)
	if !ok {
		return errUnread()
	}
	x.scope.result = held
	return nil
}

// answer returns the result of a request. If a reload replaces the upstream of a get or completion
// before the call, the caller is authenticated again, and the request begins again with the new
// configuration.
func (h *Handler) answer(ctx context.Context, x *run) (result Result, err error) {
	defer recovered(&err)
	r := x.r
	// Check this before any lookup, so that the response does not depend on the prompt's
	// visibility.
	if err := r.checkSpelling(); err != nil {
		return Result{}, err
	}
	if r.tool.refusal != nil {
		return Result{}, r.tool.refusal
	}
	for {
		result, err = h.dispatch(ctx, x)
		if !errors.Is(err, upstream.ErrRetired) {
			return result, err
		}
		if err := h.renew(ctx, x); err != nil {
			return Result{}, err
		}
	}
}

// dispatch calls the function for the request's method.
func (h *Handler) dispatch(ctx context.Context, x *run) (Result, error) {
	method := x.r.Message.Method
	switch {
	case method == wire.PromptsList:
		return h.list(ctx, x)
	case method == wire.PromptsGet:
		return h.get(ctx, x)
	case method == wire.Complete:
		return h.complete(ctx, x)
	case method == wire.ToolsList && x.r.Variant == config.VariantTools:
		return x.listTools()
	case !supports(x.snapshot, x.r.Revision, method):
		return x.era.own(h, x)
	}
	switch method {
	case wire.SkillsList:
		return h.list(ctx, x)
	case wire.SkillsGet:
		return h.describe(ctx, x)
	case wire.ResourcesRead:
		return h.read(ctx, x)
	case wire.DirectoryRead:
		return h.readDirectory(ctx, x)
	}
	return Result{Members: x.cacheable(wire.Members(emptyLists[method]))}, nil
}

// emptyObject is the result of a request that returns no data.
var emptyObject = jsontext.Value("{}") //nolint:gochecknoglobals // a constant

// emptyLists are the results for lists that are always empty. Some legacy clients request lists of
// features that were not declared, and drop the whole server after an error.
var emptyLists = map[string]jsontext.Value{ //nolint:gochecknoglobals // a constant table
	wire.ToolsList:     jsontext.Value(`{"tools":[]}`),
	wire.ResourcesList: jsontext.Value(`{"resources":[]}`),
	wire.TemplatesList: jsontext.Value(`{"resourceTemplates":[]}`),
}

// setLogLevel carries out logging/setLevel.
func (r *Request) setLogLevel() (Result, error) {
	level, _ := r.Params.Text("level")
	if wire.Severity(level) == 0 {
		return Result{}, ErrLogLevel()
	}
	if r.SetLogLevel != nil {
		r.SetLogLevel(level)
	}
	return Result{JSON: emptyObject}, nil
}

// serverInfo returns the gateway's Implementation (MCP's name and version object) as JSON.
func serverInfo(version string) jsontext.Value {
	return wire.Object{}.With("name", wire.Quote(Name)).With("version", wire.Quote(cmp.Or(version, "0"))).JSON()
}

// ServerInfo returns the gateway's Implementation (MCP's name and version object) as JSON.
func (h *Handler) ServerInfo() jsontext.Value { return h.info }

// capabilities returns the gateway's capabilities for the client. Revision 2024-11-05 has no
// completions capability.
func capabilities(r *Request) jsontext.Value {
	declared := wire.Object{}.
		With("prompts", jsontext.Value(`{"listChanged":true}`)).
		With("logging", emptyObject)
	if r.Revision != wire.Rev20241105 {
		declared = declared.With("completions", emptyObject)
	}
	if r.Supports(wire.ResourcesRead) {
		// Declare neither subscribe nor listChanged, because resources/list is always empty.
		declared = declared.With("resources", emptyObject)
	}
	if r.Supports(wire.SkillsList) {
		declared = declared.With("extensions", jsontext.Value(`{"`+wire.ExtensionSkills+`":{"directoryRead":true}}`))
	}
	if r.Variant == config.VariantTools {
		declared = declared.With("tools", emptyObject)
	}
	return declared.JSON()
}

// Initialization returns the result of initialize, with the negotiated revision.
func (h *Handler) Initialization(r *Request) jsontext.Value {
	return wire.Object{}.
		With("protocolVersion", wire.Quote(r.Revision)).
		With("capabilities", capabilities(r)).
		With("serverInfo", h.info).
		WithText("instructions", r.Snapshot.Config.Gateway.Instructions).JSON()
}

// discoveryTTL is the time for which a client may cache the results of server/discover and
// tools/list.
const discoveryTTL = time.Hour

// discovery returns the result of server/discover.
func discovery(r *Request, info jsontext.Value) jsontext.Value {
	result := wire.Object{}.
		With("resultType", quotedComplete).
		With("supportedVersions", supportedVersions()).
		With("capabilities", capabilities(r)).
		With("_meta", wire.Object{}.With(wire.MetaServerInfo, info).JSON()).
		WithText("instructions", r.Snapshot.Config.Gateway.Instructions)
	return withHints(result, discoveryTTL, "public").JSON()
}
