package requests

import (
	"context"
	"errors"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// target is the prompt that a get or completion turned out to be about.
type target struct {
	// name is the one that the client asked for, and arguments those of a get, as far as the
	// request came. The audit log uses what was read for the request itself: reading it again would
	// be most of what a line costs.
	name      string
	arguments wire.Object
	// use is set for the read of a SKILL.md, which is to a skill what a get is to a prompt.
	use bool
	// linked is set for the read of a link in a prompt's result. Its argument is the server's uri.
	linked bool
	// entry is nil where there is none. The caller does not see it if notFound is set.
	entry    *catalog.Entry
	notFound bool
	// rule decided whether the caller sees the entry; nil where none names it.
	rule *policy.Rule
}

// seen returns the exposed name of the prompt if the caller sees it, else "".
func (t *target) seen() string {
	if t.entry == nil || t.notFound {
		return ""
	}
	return t.entry.Name
}

// findHidden finds the prompt that the caller does not see, for the audit log alone.
func (t *target) findHidden(c *catalog.Catalog, audience *policy.Audience) {
	if t.use {
		for _, e := range c.Entries() { // all of them, whether or not there is one, see authorizeClient
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

// errAudit refuses a request that cannot be recorded.
func errAudit() *wire.Error {
	return ownError(reasonAudit, "The audit log cannot be written, and nothing is answered without it: try again later")
}

// recorder writes requests into the audit log.
type recorder struct {
	log       *audit.Log // nil where nothing is recorded
	publisher *snapshot.Publisher
	logger    *slog.Logger // limited in rate
}

// refuses reports whether a request must be refused because it could not be recorded.
func (a *recorder) refuses() bool { return a.log.Refuses() }

// records reports whether a request is to be recorded. One that was refused before its caller was
// known is not: anybody can send any number of them.
func (a *recorder) records(r *Request) bool {
	if a.log == nil || r.Caller.Generation == nil && r.local == nil {
		return false
	}
	switch r.Message.Method {
	case wire.PromptsGet, wire.Complete:
		return true
	}
	if r.target.use || r.target.linked {
		return true
	}
	cfg := a.snapshotOf(r).Config.Audit
	return cfg != nil && cfg.Access
}

// snapshotOf returns the snapshot of a request; the current one for a request that was refused
// before it got one.
func (a *recorder) snapshotOf(r *Request) *snapshot.Snapshot {
	if r.Snapshot != nil {
		return r.Snapshot
	}
	return a.publisher.Current()
}

// operatorSubject is the subject of operators. It is unlike that of any principal, which begins
// with "user:".
const operatorSubject = "operator"

// record records a request whose response is known: with the error of r, which the client gets as
// wireErr, or without any. The error means that the response must not be given.
func (a *recorder) record(ctx context.Context, r *Request, out *Response, err error, wireErr *wire.Error) error {
	line := audit.Line{
		Time: r.Answered(), Event: eventOf(r), Duration: r.took, Session: r.Session,
		Trace:   trace.SpanContextFromContext(ctx).TraceID(),
		Outcome: outcomeOf(ctx, r, out, err), Upstream: out.upstream,
	}
	if line.Event == audit.Request || r.target.linked {
		line.Method = r.operation.kind.method
	}
	if r.local != nil {
		o := r.local.Operator
		line.Subject, line.Client, line.Via, line.As = operatorSubject, o.Client, "console", o.As
	}
	if principal := &r.Caller.Principal; r.Caller.Generation != nil {
		line.Subject, line.Groups, line.Anonymous = principal.Subject, principal.Groups, principal.Anonymous
		line.Issuer = r.Caller.Generation.Identity.Issuer(principal.Source)
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
	if gotNothing(&line) {
		a.logger.InfoContext(ctx, "request not recorded: it got nothing", slog.String("outcome", string(line.Outcome)),
			slog.String("reason", line.Reason), slog.String("subject", line.Subject), slog.String("client", line.Client))
		return nil
	}
	a.describeTarget(&line, r)
	return a.log.Write(&line)
}

// gotNothing reports whether a request has no place in the audit log, because its caller can send
// any number of such requests, which would fill the disk: it was refused by a limit, or an anonymous
// caller got nothing.
func gotNothing(l *audit.Line) bool {
	switch l.Outcome {
	case audit.OK, audit.InputRequired, audit.UpstreamError:
		return false
	case audit.Refused:
		return l.Anonymous || l.Reason == string(upstream.RateLimited)
	}
	return l.Anonymous
}

// describeTarget adds the prompt that a get or completion is about, and its arguments.
func (a *recorder) describeTarget(line *audit.Line, r *Request) {
	arguments := r.target.arguments
	line.Prompt = r.target.name
	switch line.Event {
	case audit.Get:
		if line.Prompt == "" { // refused before it was looked up
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
	if entry := r.target.entry; entry != nil {
		line.Team = entry.Team
	}
	if rule := r.target.rule; rule != nil {
		line.Rule, line.Place = rule.Title, rule.Place
	}
	s := a.snapshotOf(r)
	if cfg := s.Config.Audit; cfg != nil {
		line.Arguments = audit.Arguments{Members: arguments, Record: cfg.Arguments, Hash: s.ArgumentHashes}
	}
}

// completedArguments returns the argument that is being completed, and those that are known
// already.
func completedArguments(params wire.Object) wire.Object {
	argument, known := params.Object("argument"), params.Object("context").Object("arguments")
	name, ok := argument.Text("name")
	if !ok {
		return known
	}
	return append(wire.Object{wire.Member{Name: name, Value: argument.Get("value")}}, known...)
}

// eventOf returns what a request is to the audit log.
func eventOf(r *Request) audit.Event {
	switch r.Message.Method {
	case wire.PromptsGet:
		return audit.Get
	case wire.Complete:
		return audit.Completion
	case wire.PromptsList:
		return audit.List
	}
	if r.target.use || r.target.linked {
		return audit.Get
	}
	return audit.Request
}

// outcomeOf says how a request ended.
func outcomeOf(ctx context.Context, r *Request, out *Response, err error) audit.Outcome {
	wireErr, answered := errors.AsType[*wire.Error](err)
	switch {
	case err == nil && out.asks:
		return audit.InputRequired
	case err == nil:
		return audit.OK
	case r.target.notFound && r.target.entry != nil:
		return audit.Hidden
	case r.target.notFound:
		return audit.Unknown
	case errors.Is(err, errRefused):
		return audit.Refused
	case answered && wireErr.FromPeer():
		return audit.UpstreamError
	case answered:
		return audit.Refused
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrShuttingDown):
		return audit.Cancelled
	}
	return audit.Failed
}

// ownReason returns the data.reason of an error of the gateway's own, "" where it has none.
func ownReason(err *wire.Error) string {
	if err.FromPeer() {
		return ""
	}
	reason, _ := wire.Members(err.Data).Text("reason")
	return reason
}
