package audit

import (
	"bytes"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

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
	Time  time.Time
	Event Event
	// Method is the method of the request, if Event does not determine it.
	Method string

	// Subject, Anonymous, Groups and Issuer describe the principal.
	Subject   string
	Anonymous bool
	Groups    []string
	Issuer    string
	// Client is the network address of the client.
	Client string
	// ClientName and ClientVersion are from the client's initialize request or metadata. They are not
	// verified.
	ClientName, ClientVersion string
	// Session is the id of a legacy session.
	Session [16]byte

	// Prompt is the exposed name as the client spelled it.
	Prompt string
	// Upstream is the last upstream that was called.
	Upstream string
	Team     string
	// Rule and Place are the title and the location of the block that decided the prompt's visibility.
	Rule, Place string
	Arguments   Arguments

	// Act is an operator's action.
	Act string
	// Via is "console" for a get or completion in the console.
	Via string
	// As is the principal whose view the console showed.
	As      string
	Outcome Outcome
	// Reason is the reason code of the gateway's own error.
	Reason string
	// Code is the JSON-RPC error code.
	Code     int64
	Duration time.Duration
	Trace    [16]byte
}

// Arguments are the arguments of a get or completion, and what is recorded of them.
type Arguments struct {
	Members wire.Object
	Record  config.AuditArguments
	// Hash makes the hashes. It is required for [config.AuditHash].
	Hash *seal.MAC
}

// Bounds of one line. They are necessary because clients choose most of its texts.
const (
	maxText      = 512      // bytes of a text or name
	maxValue     = 1024     // bytes of the value of one argument
	maxValues    = 16 << 10 // bytes of the names and values of all arguments
	maxArguments = 64
	maxGroups    = 100
)

// usualLine is the initial size of a line's memory in bytes. Most lines fit into it.
const usualLine = 512

// encode returns the line as JSON, with a line feed. Invalid UTF-8 becomes U+FFFD. A field that is longer than
// its bound is cut.
func (l *Line) encode() []byte {
	w := writer{json: make([]byte, 0, usualLine)}
	w.json = l.Time.UTC().AppendFormat(append(w.json, `{"time":"`...), `2006-01-02T15:04:05.000000Z"`)
	w.text("event", string(l.Event))
	w.text("method", l.Method)
	w.text("subject", l.Subject)
	w.flag("anonymous", l.Anonymous)
	w.texts("groups", w.first(l.Groups, maxGroups))
	w.text("issuer", l.Issuer)
	w.text("client", l.Client)
	w.text("client_name", l.ClientName)
	w.text("client_version", l.ClientVersion)
	w.hex("session", l.Session)
	w.text("prompt", l.Prompt)
	w.text("upstream", l.Upstream)
	w.text("team", l.Team)
	w.text("rule", l.Rule)
	w.text("place", l.Place)
	w.arguments(&l.Arguments)
	w.text("act", l.Act)
	w.text("via", l.Via)
	w.text("as", l.As)
	w.text("outcome", string(l.Outcome))
	w.text("reason", l.Reason)
	if l.Code != 0 {
		w.name("code")
		w.json = strconv.AppendInt(w.json, l.Code, 10)
	}
	if took := l.Duration.Round(time.Microsecond); took != 0 {
		w.name("duration_ms")
		w.json = strconv.AppendFloat(w.json, float64(took)/float64(time.Millisecond), 'f', -1, 64)
	}
	w.hex("trace_id", l.Trace)
	w.flag("cut", w.cut)
	line := append(w.json, "}\n"...)
	// Check the bytes first: nearly all lines are ASCII, and decoding runes takes five times as long.
	if slices.ContainsFunc(line, func(c byte) bool { return c >= 0x7f }) && bytes.ContainsFunc(line, isHidden) {
		// Escape invisible characters: they could mislead a person at a terminal or control the terminal.
		return wire.Escaped(line, func(r rune) bool { return !isHidden(r) })
	}
	return line
}

// isHidden reports whether a character that JSON leaves unescaped is invisible, or is a line end to
// some programs.
func isHidden(r rune) bool {
	return r >= 0x7f && (r == '\u2028' || r == '\u2029' || config.IsInvisible(r))
}

// writer appends the fields of a line, except empty ones, to its JSON. It uses no reflection, which took most of the time
// for a line.
type writer struct {
	json []byte
	// cut is true once a field was cut.
	cut bool
}

func (w *writer) name(name string) {
	w.json = append(append(append(w.json, `,"`...), name...), `":`...)
}

func (w *writer) quote(text string) { w.json = wire.AppendQuote(w.json, text) }

func (w *writer) text(name, text string) {
	if text != "" {
		w.name(name)
		w.quote(w.clip(text, maxText))
	}
}

func (w *writer) flag(name string, flag bool) {
	if flag {
		w.name(name)
		w.json = append(w.json, "true"...)
	}
}

func (w *writer) hex(name string, id [16]byte) {
	if id != [16]byte{} {
		w.name(name)
		w.json = append(hex.AppendEncode(append(w.json, '"'), id[:]), '"')
	}
}

func (w *writer) texts(name string, texts []string) {
	if len(texts) == 0 {
		return
	}
	w.name(name)
	w.json = append(w.json, '[')
	for i, text := range texts {
		if i > 0 {
			w.json = append(w.json, ',')
		}
		w.quote(w.clip(text, maxText))
	}
	w.json = append(w.json, ']')
}

// arguments appends the names of the arguments and, depending on Record, their hashes or values.
func (w *writer) arguments(a *Arguments) {
	names := make([]string, 0, len(a.Members))
	for i := range a.Members {
		names = append(names, a.Members[i].Name)
	}
	names = w.first(names, maxArguments)
	w.texts("arguments", names)
	members := a.Members[:len(names)]
	switch {
	case a.Record == config.AuditHash && a.Hash != nil:
		w.byName("argument_hashes", members, func(_ string, value []byte) string { return string(a.Hash.AppendHex(nil, value)) })
	case a.Record == config.AuditValues:
		left := maxValues
		w.byName("argument_values", members, func(name string, value []byte) string {
			// The name counts, too: it is written again as the key of the value.
			left = max(0, left-len(name))
			text := w.clip(string(value), min(left, maxValue))
			left -= len(text)
			return text
		})
	}
}

// byName appends an object with a text for each of the arguments, in the order of their names.
func (w *writer) byName(field string, members wire.Object, text func(name string, value []byte) string) {
	if len(members) == 0 {
		return
	}
	texts := make(map[string]string, len(members))
	for _, m := range members {
		name := w.clip(m.Name, maxText)
		texts[name] = text(name, []byte(textOf(m.Value)))
	}
	w.name(field)
	w.json = append(w.json, '{')
	for i, name := range slices.Sorted(maps.Keys(texts)) {
		if i > 0 {
			w.json = append(w.json, ',')
		}
		w.quote(name)
		w.json = append(w.json, ':')
		w.quote(texts[name])
	}
	w.json = append(w.json, '}')
}

// first cuts a list to a number of texts.
func (w *writer) first(texts []string, most int) []string {
	if len(texts) <= most {
		return texts
	}
	w.cut = true
	return texts[:most]
}

// clip cuts a text to a number of bytes.
func (w *writer) clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	w.cut = true
	// Cut at the beginning of a character: a partial character would become U+FFFD.
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// textOf returns the text of a JSON string, or the JSON of any other value.
func textOf(value jsontext.Value) string {
	if text, ok := wire.Text(value); ok {
		return text
	}
	return string(value)
}
