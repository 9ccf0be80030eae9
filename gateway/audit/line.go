package audit

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/trace"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Event says what a line is about.
type Event string

// The events.
const (
	Get        Event = "get"        // a prompts/get
	Completion Event = "completion" // a completion/complete
	List       Event = "list"       // a prompts/list
	Request    Event = "request"    // any other request
	Reload     Event = "reload"     // the configuration was loaded again
	Operator   Event = "operator"   // what an operator did at the admin listener
)

// Outcome says how an event ended.
type Outcome string

// The outcomes.
const (
	OK Outcome = "ok"
	// The client was asked for input, and comes back with another get.
	InputRequired Outcome = "input_required"
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

// Bounds on what a client can write into a line, in bytes and in number. A line in which something
// was cut says so.
const (
	maxText      = 512
	maxValue     = 1024
	maxValues    = 16 << 10 // of all arguments together
	maxArguments = 64
	maxGroups    = 100
)

// timeFormat is RFC 3339 with microseconds, so that each line has as many digits.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// entry is a line as it is written, with its members in order.
type entry struct {
	Time          string   `json:"time"`
	Event         Event    `json:"event"`
	Method        string   `json:"method,omitzero"`
	Subject       string   `json:"subject,omitzero"`
	Anonymous     bool     `json:"anonymous,omitzero"`
	Groups        []string `json:"groups,omitempty"`
	Issuer        string   `json:"issuer,omitzero"`
	Client        string   `json:"client,omitzero"`
	ClientName    string   `json:"client_name,omitzero"`
	ClientVersion string   `json:"client_version,omitzero"`
	Session       string   `json:"session,omitzero"`
	Prompt        string   `json:"prompt,omitzero"`
	Upstream      string   `json:"upstream,omitzero"`
	Team          string   `json:"team,omitzero"`
	Rule          string   `json:"rule,omitzero"`
	Place         string   `json:"place,omitzero"`

	Arguments      []string          `json:"arguments,omitempty"`
	ArgumentHashes map[string]string `json:"argument_hashes,omitempty"`
	ArgumentValues map[string]string `json:"argument_values,omitempty"`

	Act        string  `json:"act,omitzero"`
	Via        string  `json:"via,omitzero"`
	As         string  `json:"as,omitzero"`
	Outcome    Outcome `json:"outcome,omitzero"`
	Reason     string  `json:"reason,omitzero"`
	Code       int64   `json:"code,omitzero"`
	DurationMs float64 `json:"duration_ms,omitzero"`
	TraceID    string  `json:"trace_id,omitzero"`

	Cut bool `json:"cut,omitzero"`
}

func (l *Line) fill(r *entry) {
	r.Time, r.Event, r.Outcome = l.Time.UTC().Format(timeFormat), l.Event, l.Outcome
	r.Code, r.Anonymous = l.Code, l.Anonymous
	// Rounded to microseconds, or nobody could read the digits.
	r.DurationMs = math.Round(float64(l.Duration)/float64(time.Microsecond)) / 1000
	r.Method, r.Subject, r.Issuer = r.text(l.Method), r.text(l.Subject), r.text(l.Issuer)
	r.ClientName, r.ClientVersion = r.text(l.ClientName), r.text(l.ClientVersion)
	r.Client, r.Prompt, r.Upstream = r.text(l.Client), r.text(l.Prompt), r.text(l.Upstream)
	r.Team, r.Rule, r.Place = r.text(l.Team), r.text(l.Rule), r.text(l.Place)
	r.Act, r.Via, r.As, r.Reason = r.text(l.Act), r.text(l.Via), r.text(l.As), r.text(l.Reason)
	r.addGroups(l.Groups)
	r.addArguments(&l.Arguments)
	if l.Session != ([16]byte{}) {
		r.Session = hex.EncodeToString(l.Session[:])
	}
	if l.Trace.IsValid() {
		r.TraceID = l.Trace.String()
	}
}

// lineEncoder encodes one line after another. An encoder and an entry of its own would cost each
// line three allocations more.
type lineEncoder struct {
	entry  entry
	buffer bytes.Buffer
	json   *json.Encoder
}

var lineEncoders = sync.Pool{New: func() any { //nolint:gochecknoglobals // a pool is shared by nature
	e := &lineEncoder{}
	e.json = json.NewEncoder(&e.buffer)
	e.json.SetEscapeHTML(false)
	return e
}}

// encode returns the line as JSON, with a line feed. Invalid UTF-8 becomes U+FFFD.
func (l *Line) encode() []byte {
	encoder, _ := lineEncoders.Get().(*lineEncoder)
	defer lineEncoders.Put(encoder)
	encoder.entry = entry{}
	l.fill(&encoder.entry)
	encoder.buffer.Reset()
	_ = encoder.json.Encode(&encoder.entry) // texts, numbers and truth values
	line := encoder.buffer.Bytes()
	// Of nearly all lines, each byte is a printable character of ASCII: to find that out costs a
	// fifth of decoding runes.
	if slices.ContainsFunc(line, func(c byte) bool { return c >= 0x7f }) && bytes.ContainsFunc(line, isHidden) {
		// Who reads the log at a terminal must not be shown another text than it has, nor have the
		// terminal do something.
		return wire.Escaped(line, func(r rune) bool { return !isHidden(r) })
	}
	return bytes.Clone(line)
}

// isHidden reports whether a character that JSON leaves as it is cannot be seen, or ends a line to
// some programs.
func isHidden(r rune) bool {
	return r >= 0x7f && (r == '\u2028' || r == '\u2029' || config.IsInvisible(r))
}

// text returns a text of bounded length.
func (e *entry) text(text string) string { return e.clip(text, maxText) }

func (e *entry) clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	e.Cut = true
	// Not within a character, of which JSON would make U+FFFD.
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

func (e *entry) addGroups(groups []string) {
	if len(groups) > maxGroups {
		groups, e.Cut = groups[:maxGroups], true
	}
	e.Groups = make([]string, len(groups))
	for i, group := range groups {
		e.Groups[i] = e.text(group)
	}
}

// addArguments adds the names of arguments, and what else is to be recorded of them.
func (e *entry) addArguments(a *Arguments) {
	members := a.Members
	if len(members) > maxArguments {
		members, e.Cut = members[:maxArguments], true
	}
	e.Arguments = make([]string, len(members))
	for i := range members {
		e.Arguments[i] = e.text(members[i].Name)
	}
	switch {
	case a.Record == config.AuditHash && a.Hash != nil:
		e.ArgumentHashes = make(map[string]string, len(members))
		for i, name := range e.Arguments {
			e.ArgumentHashes[name] = string(a.Hash.AppendHex(nil, []byte(textOf(members[i].Value))))
		}
	case a.Record == config.AuditValues:
		e.ArgumentValues = make(map[string]string, len(members))
		left := maxValues
		for i, name := range e.Arguments {
			// A name is written again, as the key of its value.
			left = max(0, left-len(name))
			value := e.clip(textOf(members[i].Value), min(left, maxValue))
			e.ArgumentValues[name] = value
			left -= len(value)
		}
	}
}

// textOf returns the text of a JSON string, of another value its JSON.
func textOf(value jsontext.Value) string {
	if text, ok := wire.Text(value); ok {
		return text
	}
	return string(value)
}
