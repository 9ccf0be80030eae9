package audit

import (
	"bytes"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Event is the kind of event that a line records.
type Event string

// The events.
const (
	Get        Event = "get"        // a prompts/get
	Completion Event = "completion" // a completion/complete
	List       Event = "list"       // a prompts/list
	Request    Event = "request"    // any other request
	Reload     Event = "reload"     // a reload of the configuration
	Operator   Event = "operator"   // an operator's action at the admin listener
)

// Outcome is the end of an event.
type Outcome string

// The outcomes.
const (
	OK Outcome = "ok"
	// InputRequired means that the response asks the client for input. The client may then repeat the
	// get with the input.
	InputRequired Outcome = "input_required"
	Unknown       Outcome = "unknown"        // no such prompt exists
	Hidden        Outcome = "denied"         // the caller may not see the prompt, and got the error for an unknown prompt
	Refused       Outcome = "refused"        // the gateway refused the request with its own error
	UpstreamError Outcome = "upstream_error" // the upstream returned an error, and the client got that error
	Failed        Outcome = "failed"         // the upstream returned no usable response
	Cancelled     Outcome = "cancelled"      // the client canceled the request or closed the connection
)

// Line is one event of the log. Empty fields are not written.
type Line struct {
	Time  time.Time `json:"time,format:'2006-01-02T15:04:05.000000Z'"`
	Event Event     `json:"event"`
	// Method is the method of the request, if Event does not determine it.
	Method string `json:"method,omitzero"`

	// Subject, Anonymous, Groups and Issuer describe the principal.
	Subject   string   `json:"subject,omitzero"`
	Anonymous bool     `json:"anonymous,omitzero"`
	Groups    []string `json:"groups,omitempty"`
	Issuer    string   `json:"issuer,omitzero"`
	// Client is the network address of the client.
	Client string `json:"client,omitzero"`
	// ClientName and ClientVersion are from the client's initialize request or metadata. They are not
	// verified.
	ClientName    string `json:"client_name,omitzero"`
	ClientVersion string `json:"client_version,omitzero"`
	// Session is the id of a legacy session.
	Session [16]byte `json:"session,omitzero,format:hex"`

	// Prompt is the exposed name as the client spelled it.
	Prompt string `json:"prompt,omitzero"`
	// Upstream is the last upstream that was called.
	Upstream string `json:"upstream,omitzero"`
	Team     string `json:"team,omitzero"`
	// Rule and Place are the title and the location of the block that decided the prompt's visibility.
	Rule      string `json:"rule,omitzero"`
	Place     string `json:"place,omitzero"`
	Arguments `json:",inline"`

	// Act is an operator's action.
	Act string `json:"act,omitzero"`
	// Via is "console" for a get or completion in the console.
	Via string `json:"via,omitzero"`
	// As is the principal whose view the console showed.
	As      string  `json:"as,omitzero"`
	Outcome Outcome `json:"outcome,omitzero"`
	// Reason is the reason code of the gateway's own error.
	Reason string `json:"reason,omitzero"`
	// Code is the JSON-RPC error code.
	Code     int64         `json:"code,omitzero"`
	Duration time.Duration `json:"duration_ms,omitzero,format:milli"`
	Trace    [16]byte      `json:"trace_id,omitzero,format:hex"`

	// Cut is true if a field was shortened to its bound.
	Cut bool `json:"cut,omitzero"`
}

// Arguments are the arguments of a get or completion. The caller sets the first three fields; the log
// derives the others.
type Arguments struct {
	Members wire.Object           `json:"-"`
	Record  config.AuditArguments `json:"-"`
	// Hash makes the hashes. It is required for [config.AuditHash].
	Hash *seal.MAC `json:"-"`

	Names  []string          `json:"arguments,omitempty"`
	Hashes map[string]string `json:"argument_hashes,omitempty"`
	Values map[string]string `json:"argument_values,omitempty"`
}

// Bounds of one line. They are necessary because clients choose most of its texts.
const (
	maxText      = 512      // bytes of a text or name
	maxValue     = 1024     // bytes of the value of one argument
	maxValues    = 16 << 10 // bytes of the names and values of all arguments
	maxArguments = 64
	maxGroups    = 100
)

// buffers saves an allocation per line.
var buffers = sync.Pool{New: func() any { return &bytes.Buffer{} }} //nolint:gochecknoglobals // a pool is shared by nature

// encode returns the line as JSON, with a line feed. Invalid UTF-8 becomes U+FFFD.
func (l *Line) encode() []byte {
	bounded := *l
	bounded.bound()
	buffer, _ := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(buffer)
	buffer.Reset()
	_ = json.MarshalWrite(buffer, &bounded, json.Deterministic(true), jsontext.AllowInvalidUTF8(true), json.ExperimentalSupportFormatTag(true))
	buffer.WriteByte('\n')
	line := buffer.Bytes()
	// Check the bytes first: nearly all lines are ASCII, and decoding runes takes five times as long.
	if slices.ContainsFunc(line, func(c byte) bool { return c >= 0x7f }) && bytes.ContainsFunc(line, isHidden) {
		// Escape invisible characters: they could mislead a person at a terminal or control the terminal.
		return wire.Escaped(line, func(r rune) bool { return !isHidden(r) })
	}
	return bytes.Clone(line)
}

// bound applies the bounds to a copy of a line, derives the recorded arguments, and rounds the
// duration to microseconds.
func (l *Line) bound() {
	l.Time, l.Duration = l.Time.UTC(), l.Duration.Round(time.Microsecond)
	for _, text := range []*string{
		&l.Method, &l.Subject, &l.Issuer, &l.Client, &l.ClientName, &l.ClientVersion, &l.Prompt, &l.Upstream, &l.Team, &l.Rule, &l.Place,
		&l.Act, &l.Via, &l.As, &l.Reason,
	} {
		*text = l.clip(*text, maxText)
	}
	l.boundGroups()
	l.recordArguments()
}

// isHidden reports whether a character that JSON leaves unescaped is invisible, or is a line end to
// some programs.
func isHidden(r rune) bool {
	return r >= 0x7f && (r == '\u2028' || r == '\u2029' || config.IsInvisible(r))
}

func (l *Line) clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	l.Cut = true
	// Cut at the beginning of a character: a partial character would become U+FFFD.
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

func (l *Line) boundGroups() {
	if len(l.Groups) > maxGroups {
		l.Groups, l.Cut = l.Groups[:maxGroups], true
	}
	isLong := func(group string) bool { return len(group) > maxText }
	if slices.ContainsFunc(l.Groups, isLong) {
		l.Groups = slices.Clone(l.Groups) // do not change the principal's slice
		for i, group := range l.Groups {
			l.Groups[i] = l.clip(group, maxText)
		}
	}
}

// recordArguments sets Names and, depending on Record, Hashes or Values.
func (l *Line) recordArguments() {
	members := l.Members
	if len(members) > maxArguments {
		members, l.Cut = members[:maxArguments], true
	}
	l.Names = make([]string, len(members))
	for i := range members {
		l.Names[i] = l.clip(members[i].Name, maxText)
	}
	switch {
	case l.Record == config.AuditHash && l.Hash != nil:
		l.Hashes = make(map[string]string, len(members))
		for i, name := range l.Names {
			l.Hashes[name] = string(l.Hash.AppendHex(nil, []byte(textOf(members[i].Value))))
		}
	case l.Record == config.AuditValues:
		l.Values = make(map[string]string, len(members))
		left := maxValues
		for i, name := range l.Names {
			// The name counts, too: it is written again as the key of the value.
			left = max(0, left-len(name))
			value := l.clip(textOf(members[i].Value), min(left, maxValue))
			l.Values[name] = value
			left -= len(value)
		}
	}
}

// textOf returns the text of a JSON string, or the JSON of any other value.
func textOf(value jsontext.Value) string {
	if text, ok := wire.Text(value); ok {
		return text
	}
	return string(value)
}
