package audit

import (
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Event says what a line is about.
type Event string

// The events. A line that tells of missing ones has the event "gap".
const (
	Get        Event = "get"        // a prompts/get
	Completion Event = "completion" // a completion/complete
	List       Event = "list"       // a prompts/list
	Request    Event = "request"    // any other request
	Credential Event = "credential" // a credential that was refused
	Reload     Event = "reload"     // the configuration was loaded again
	Operator   Event = "operator"   // what an operator did at the admin listener
	Refusals   Event = "refusals"   // how many refusals of callers without a credential have no line of their own

	gap Event = "gap"
)

// Outcome says how an event ended.
type Outcome string

// The outcomes.
const (
	OK            Outcome = "ok"
	InputRequired Outcome = "input_required" // the client was asked for input, and comes back with another get
	Unknown       Outcome = "unknown"        // there is no such prompt
	Hidden        Outcome = "denied"         // there is one, which the caller may not see; it was told that there is none
	Refused       Outcome = "refused"        // the gateway answered with an error of its own
	UpstreamError Outcome = "upstream_error" // the upstream answered with an error, which was passed on
	Failed        Outcome = "failed"         // there was no usable answer
	Cancelled     Outcome = "cancelled"      // the client gave up
)

// Line is one event. Fields that are empty are left out.
type Line struct {
	Time  time.Time
	Event Event
	// Method is the request's method, of those that have no event of their own.
	Method string

	// Subject, Groups and Issuer are the principal's; Client is the network address that the
	// request came from.
	Subject, Issuer, Client string
	// ClientName and ClientVersion are what the client calls itself.
	ClientName, ClientVersion string
	Groups                    []string
	Anonymous                 bool
	// Session is the id of a legacy session.
	Session [16]byte

	// Prompt is the exposed name as the client wrote it, Upstream who answered or was asked last.
	Prompt, Upstream, Team string
	// Rule and Place name the block that decided whether the caller sees the prompt.
	Rule, Place string
	Arguments   Arguments

	Outcome Outcome
	// Reason is the gateway's word for an error of its own, Code the JSON-RPC code of any error.
	Reason string
	Code   int64
	// Act is what an operator did. Via is "console" for a get or completion that an operator made
	// there, and As whose view was shown meanwhile.
	Act, Via, As string

	// Count is that of refusals without a line of their own.
	Count uint64

	Duration time.Duration
	Trace    trace.TraceID
}

// Arguments are those of a get or completion, and what is recorded of them.
type Arguments struct {
	Members wire.Object
	Record  config.AuditArguments
	// Hash makes the hashes for [config.AuditHash].
	Hash *seal.MAC
}
