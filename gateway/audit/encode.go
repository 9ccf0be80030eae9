package audit

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Bounds on what a client can write into a line, in bytes and in number. A line in which something was cut says so.
const (
	maxText      = 512
	maxValue     = 1024
	maxValues    = 16 << 10 // of all arguments together
	maxArguments = 64
	maxGroups    = 100
)

// timeFormat is RFC 3339 with microseconds, so that each line has as many digits.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// beginning is what each line begins with, by which its parts are known.
const beginning = `{"time":"`

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

	Count uint64 `json:"count,omitzero"`
	Lost  uint64 `json:"lost,omitzero"`
	Late  uint64 `json:"late,omitzero"`
	Cut   bool   `json:"cut,omitzero"`
}

// appendTo appends the line as JSON, and a line feed.
func (l *Line) appendTo(dst []byte) []byte {
	r := entry{
		Time: l.Time.UTC().Format(timeFormat), Event: l.Event, Outcome: l.Outcome, Code: l.Code,
		Anonymous: l.Anonymous, Count: l.Count,
		// Rounded to microseconds, or nobody could read the digits.
		DurationMs: math.Round(float64(l.Duration)/float64(time.Microsecond)) / 1000,
	}
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
	return r.appendTo(dst)
}

// appendGap appends the line about missing ones.
func appendGap(dst []byte, now time.Time, lost, late uint64) []byte {
	r := entry{Time: now.UTC().Format(timeFormat), Event: gap, Lost: lost, Late: late}
	return r.appendTo(dst)
}

// appendTo appends what is written, and a line feed. Invalid UTF-8 becomes U+FFFD.
func (e *entry) appendTo(dst []byte) []byte {
	begun := len(dst)
	buffer := bytes.NewBuffer(dst)
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(e) // texts, numbers and truth values
	dst = buffer.Bytes()
	line := dst[begun:]
	// Of nearly all lines, each byte is a printable character of ASCII: to find that out costs a fifth of decoding runes.
	if slices.ContainsFunc(line, func(c byte) bool { return c >= 0x7f }) && bytes.ContainsFunc(line, isHidden) {
		return appendVisible(dst[:begun], string(line))
	}
	return dst
}

// isHidden reports whether a character that JSON leaves as it is cannot be seen, or ends a line to some programs.
func isHidden(r rune) bool {
	return r >= 0x7f && (r == '\u2028' || r == '\u2029' || config.IsInvisible(r))
}

// appendVisible appends JSON with escapes for what cannot be seen: who reads the log at a terminal must not be shown
// another text than it has, nor have the terminal do something.
func appendVisible(dst []byte, line string) []byte {
	for _, r := range line {
		switch {
		case !isHidden(r):
			dst = utf8.AppendRune(dst, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			dst = fmt.Appendf(dst, `\u%04x\u%04x`, high, low)
		default:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		}
	}
	return dst
}

// text returns a text of bounded length.
func (e *entry) text(text string) string { return e.clip(text, maxText) }

func (e *entry) clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	e.Cut = true
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

func (e *entry) addGroups(groups []string) {
	if len(groups) > maxGroups {
		groups, e.Cut = groups[:maxGroups], true
	}
	for _, group := range groups {
		e.Groups = append(e.Groups, e.text(group))
	}
}

// addArguments adds the names of arguments, and what else is to be recorded of them.
func (e *entry) addArguments(a *Arguments) {
	members := a.Members
	if len(members) > maxArguments {
		members, e.Cut = members[:maxArguments], true
	}
	for i := range members {
		e.Arguments = append(e.Arguments, e.text(members[i].Name))
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
