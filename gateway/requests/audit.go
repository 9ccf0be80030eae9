package requests

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// target is the prompt of a get or completion.
type target struct {
	// name is the requested name, and arguments are the arguments of a get. Both are empty if the
	// request failed before they were read. They are stored for the audit log: parsing them again
	// would be most of the cost of a line.
	name      string
	arguments wire.Object
	// readsSkill is true for the read of a SKILL.md, which counts as the get of a skill.
	readsSkill bool
	// linked is true for the read of a link in a prompt's result. Its argument is the server's uri.
	linked bool
	// entry is nil if no entry was found. If notFound is true, the caller does not see the entry.
	entry    *catalog.Entry
	notFound bool
	// rule is the rule that shows the entry to the caller or hides it, or nil if no rule does.
	rule *policy.Rule
	// limit is the rule's limit, or nil if the rule has no limit.
	limit *config.Limit
}

func (t *target) setLink(link seal.Link) {
	t.name, t.arguments = link.Prompt, wire.Object{}.With("uri", wire.Quote(link.URI))
}

// seen returns the exposed name of the prompt if the caller sees the prompt, or "" otherwise.
func (t *target) seen() string {
	if t.entry == nil || t.notFound {
		return ""
	}
	return t.entry.Name
}

// findHidden looks up a prompt that the caller does not see, for the audit log.
func (t *target) findHidden(c *catalog.Catalog, audience *policy.Audience) {
	if t.readsSkill {
		for _, e := range c.Entries() { // no early exit: the time must not reveal whether a prompt is hidden or unknown, see findInView
			if e.Skill != nil && e.URI() == t.name {
				t.entry = e
			}
		}
	} else {
		t.entry = c.Lookup(t.name)
	}
	if t.entry != nil {
		t.rule = t.entry.HiddenBy(audience)
	}
}

// errAudit returns the error for a request that cannot be recorded.
func errAudit() *wire.Error {
	return ownError(reasonAudit, "The audit log cannot be written, and nothing is answered without it: try again later")
}

// recorder writes requests into the audit log.
type recorder struct {
	log    *audit.Log   // nil if nothing is recorded
	logger *slog.Logger // limited in rate
}

// records reports whether a request is recorded: gets and completions always are, other requests only
// if the audit block turns on access. A request that was refused before authentication is not
// recorded, because anyone can send any number of such requests.
func (a *recorder) records(x *run) bool {
	if a.log == nil || x.caller.Generation == nil && x.r.local == nil {
		return false
	}
	event, cfg := x.event(), x.snapshot.Config.Audit
	return event == audit.Get || event == audit.Completion || cfg != nil && cfg.Access
}

// operatorSubject is the subject of operators. A principal's subject begins with "user:" and is
// never equal to it.
const operatorSubject = "operator"

// record writes a request and its response to the audit log, unless requests of its kind are not recorded. The
// response is a result, or the error err, which the client gets as wireErr. If record returns an error, the response
// must not be sent.
func (a *recorder) record(ctx context.Context, x *run, err error, wireErr *wire.Error) error {
	if !a.records(x) {
		return nil
	}
	r, line := x.r, &x.line
	x.took = time.Since(r.Received) // instruments.end sets it again, with the time for writing the line
	line.Time, line.Duration, line.Trace = r.Received.Add(x.took), x.took, trace.SpanContextFromContext(ctx).TraceID()
	line.Event, line.Session, line.Outcome, line.Upstream = x.event(), r.Session, x.outcomeOf(ctx, err), x.outcome.owner
	if line.Event == audit.Request || x.target.linked {
		line.Method = x.operation.kind.method
	}
	if r.local != nil {
		o := r.local.Operator
		line.Subject, line.Client, line.Via, line.As = operatorSubject, o.Client, "console", o.As
	}
	if principal := &x.caller.Principal; x.caller.Generation != nil {
		line.Subject, line.Groups, line.Anonymous = principal.Subject, principal.Groups, principal.Anonymous
		line.Issuer = x.caller.Generation.Identity.Issuer(principal.Source)
	}
	software := r.Software
	if info := r.Meta.Object(wire.MetaClientInfo); len(info) > 0 {
		software = ReadSoftware(info)
	}
	line.ClientName, line.ClientVersion = software.Name, software.Version
	if r.Client != "" {
		line.Client = r.Client
	}
	if r.Variant != "" {
		line.Via = string(r.Variant)
	}
	if wireErr != nil {
		line.Code, line.Reason = wireErr.Code, ownReason(wireErr)
	}
	if unavailable, ok := errors.AsType[*upstream.Unavailable](err); ok {
		line.Upstream = unavailable.Upstream
	}
	if gotNothing(line) {
		a.logger.InfoContext(ctx, "request not recorded: it got nothing", slog.String("outcome", string(line.Outcome)),
			slog.String("reason", line.Reason), slog.String("subject", line.Subject), slog.String("client", line.Client))
		return nil
	}
	x.describeTarget()
	return a.log.Write(line)
}

// gotNothing reports whether a request is left out of the audit log, because a caller could send
// any number of such requests and fill the disk. These are requests refused by a limit, and
// anonymous requests that got neither a result nor an upstream's error.
func gotNothing(l *audit.Line) bool {
	switch l.Outcome {
	case audit.OK, audit.InputRequired, audit.UpstreamError:
		return false
	case audit.Refused:
		return l.Anonymous || l.Reason == string(upstream.RateLimited)
	}
	return l.Anonymous
}

// describeTarget adds the prompt of a get or completion, its team, the rule that decided about its
// visibility, and the arguments.
func (x *run) describeTarget() {
	r, line, arguments := x.r, &x.line, x.target.arguments
	line.Prompt = x.target.name
	switch line.Event {
	case audit.Get:
		if line.Prompt == "" { // the request was refused before the lookup
			line.Prompt, _ = r.Params.Text("name")
		}
		if arguments == nil {
			arguments = r.Params.Object("arguments")
		}
	case audit.Completion:
		if line.Prompt == "" {
			line.Prompt, _ = r.Params.Object("ref").Text("name")
		}
		arguments = completedArguments(r.Params)
	default:
		return
	}
	if entry := x.target.entry; entry != nil {
		line.Team = entry.Team
	}
	if rule := x.target.rule; rule != nil {
		line.Rule, line.Place = rule.Title, rule.Place
	}
	if cfg := x.snapshot.Config.Audit; cfg != nil {
		line.Arguments = audit.Arguments{Members: arguments, Record: cfg.Arguments, Hash: x.snapshot.ArgumentHashes}
	}
}

// completedArguments returns the argument to complete and the arguments that the client has so far.
func completedArguments(params wire.Object) wire.Object {
	argument, known := params.Object("argument"), params.Object("context").Object("arguments")
	name, ok := argument.Text("name")
	if !ok {
		return known
	}
	return append(wire.Object{wire.Member{Name: name, Value: argument.Get("value")}}, known...)
}

func (x *run) event() audit.Event {
	switch method := x.r.Message.Method; {
	case method == wire.PromptsGet, x.target.readsSkill, x.target.linked:
		return audit.Get
	case method == wire.Complete:
		return audit.Completion
	case method == wire.PromptsList:
		return audit.List
	}
	return audit.Request
}

func (x *run) outcomeOf(ctx context.Context, err error) audit.Outcome {
	wireErr, answered := errors.AsType[*wire.Error](err)
	switch {
	case err == nil && x.asks:
		return audit.InputRequired
	case err == nil:
		return audit.OK
	case x.target.notFound && x.target.entry != nil:
		return audit.Hidden
	case x.target.notFound:
		return audit.Unknown
	case answered && wireErr.FromPeer():
		return audit.UpstreamError
	case answered, errors.Is(err, errRefused):
		return audit.Refused
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrShuttingDown):
		return audit.Cancelled
	}
	return audit.Failed
}

// ownReason returns the data.reason of the gateway's own error, or "" for an upstream's error.
func ownReason(err *wire.Error) string {
	if err.FromPeer() {
		return ""
	}
	reason, _ := wire.Members(err.Data).Text("reason")
	return reason
}
