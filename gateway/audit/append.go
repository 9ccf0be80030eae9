package audit

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

// append appends the line as JSON, and a line feed.
func (l *Line) append(dst []byte) []byte {
	e := encoder{dst: begin(dst, l.Time, l.Event)}
	e.text(`,"method":`, l.Method)
	e.text(`,"subject":`, l.Subject)
	if l.Anonymous {
		e.dst = append(e.dst, `,"anonymous":true`...)
	}
	e.groups(l.Groups)
	e.text(`,"issuer":`, l.Issuer)
	e.text(`,"client":`, l.Client)
	if l.Session != ([16]byte{}) {
		e.hex(`,"session":`, l.Session[:])
	}
	e.text(`,"prompt":`, l.Prompt)
	e.text(`,"upstream":`, l.Upstream)
	e.text(`,"team":`, l.Team)
	e.text(`,"rule":`, l.Rule)
	e.text(`,"place":`, l.Place)
	e.arguments(&l.Arguments)
	e.text(`,"act":`, l.Act)
	e.text(`,"via":`, l.Via)
	e.text(`,"as":`, l.As)
	e.text(`,"outcome":`, string(l.Outcome))
	e.text(`,"reason":`, l.Reason)
	if l.Code != 0 {
		e.dst = append(e.dst, `,"code":`...)
		e.dst = strconv.AppendInt(e.dst, l.Code, 10)
	}
	if l.Duration > 0 {
		e.dst = append(e.dst, `,"duration_ms":`...)
		e.dst = appendMilliseconds(e.dst, l.Duration)
	}
	if l.Trace.IsValid() {
		e.hex(`,"trace_id":`, l.Trace[:])
	}
	if e.cut {
		e.dst = append(e.dst, `,"cut":true`...)
	}
	return append(e.dst, '}', '\n')
}

// appendGap appends the line about missing ones.
func appendGap(dst []byte, now time.Time, lost, late uint64) []byte {
	dst = append(begin(dst, now, gap), `,"lost":`...)
	dst = strconv.AppendUint(dst, lost, 10)
	if late > 0 {
		dst = strconv.AppendUint(append(dst, `,"late":`...), late, 10)
	}
	return append(dst, '}', '\n')
}

// beginning is what each line begins with, by which its parts are known.
const beginning = `{"time":"`

// begin appends what each line begins with.
func begin(dst []byte, now time.Time, event Event) []byte {
	dst = append(appendTime(append(dst, beginning...), now.UTC()), `","event":"`...)
	return append(append(dst, event...), '"')
}

// appendTime appends a time in UTC as RFC 3339 has it, with microseconds, so that each line has as many digits. Time.AppendFormat is fast
// for its own layouts only.
func appendTime(dst []byte, t time.Time) []byte {
	dst = t.AppendFormat(dst, time.RFC3339)
	dst[len(dst)-1] = '.' // instead of Z
	return append(appendDigits(dst, t.Nanosecond()/int(time.Microsecond), 6), 'Z')
}

// appendDigits appends the last digits of a number.
func appendDigits(dst []byte, number, digits int) []byte {
	at := len(dst) + digits
	dst = append(dst, "000000"[:digits]...)
	for i := at - 1; i >= at-digits; i-- {
		dst[i] += byte(number % 10)
		number /= 10
	}
	return dst
}

// appendMilliseconds appends a duration as a number, rounded to microseconds.
func appendMilliseconds(dst []byte, d time.Duration) []byte {
	micros := int(d.Round(time.Microsecond) / time.Microsecond)
	dst = strconv.AppendInt(dst, int64(micros/1000), 10)
	if micros%1000 == 0 {
		return dst
	}
	return bytes.TrimRight(appendDigits(append(dst, '.'), micros%1000, 3), "0")
}

// encoder appends members.
type encoder struct {
	dst []byte
	// cut is set once something was too long.
	cut bool
}

// text appends a member with a text, unless that is empty. The name comes as JSON has it, with a comma before it and a colon after it.
func (e *encoder) text(name, text string) {
	if text == "" {
		return
	}
	e.dst = append(e.dst, name...)
	e.quote(text, maxText)
}

func (e *encoder) hex(name string, value []byte) {
	e.dst = append(e.dst, name...)
	e.dst = append(e.dst, '"')
	e.dst = hex.AppendEncode(e.dst, value)
	e.dst = append(e.dst, '"')
}

// quote appends a text of at most so many bytes.
func (e *encoder) quote(text string, most int) {
	if len(text) > most {
		for most > 0 && !utf8.RuneStart(text[most]) {
			most--
		}
		text, e.cut = text[:most], true
	}
	if isPlain(text) {
		e.dst = append(e.dst, '"')
		e.dst = append(e.dst, text...)
		e.dst = append(e.dst, '"')
		return
	}
	if isPrintable(text) {
		e.dst = appendEscaped(e.dst, text)
		return
	}
	begun := len(e.dst)
	e.dst, _ = jsontext.AppendQuote(e.dst, text) // an error is invalid UTF-8, in whose place it puts U+FFFD
	if quoted := e.dst[begun:]; bytes.ContainsFunc(quoted, isHidden) {
		e.dst = appendVisible(e.dst[:begun], string(quoted))
	}
}

// isHidden reports whether a character that JSON has as it is cannot be seen, or ends a line to some programs.
func isHidden(r rune) bool {
	return r >= 0x7f && (r == '\u2028' || r == '\u2029' || config.IsInvisible(r))
}

// appendVisible appends a quoted text with escapes for what cannot be seen: who reads the log at a terminal must not be shown another
// text than it has, nor have the terminal do something.
func appendVisible(dst []byte, quoted string) []byte {
	for _, r := range quoted {
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

// isPlain reports whether a text is its own JSON.
func isPlain[T string | []byte](text T) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// isPrintable reports whether a text is of printable ASCII characters, as the titles of rules are, with their quotes.
func isPrintable(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

// appendEscaped appends a printable text as JSON.
func appendEscaped(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for i := range len(text) {
		if c := text[i]; c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, text[i])
	}
	return append(dst, '"')
}

// groups appends the groups of a principal.
func (e *encoder) groups(groups []string) {
	if len(groups) == 0 {
		return
	}
	if len(groups) > maxGroups {
		groups, e.cut = groups[:maxGroups], true
	}
	e.dst = append(e.dst, `,"groups":`...)
	for i, group := range groups {
		e.dst = append(e.dst, separator(i, '['))
		e.quote(group, maxText)
	}
	e.dst = append(e.dst, ']')
}

// separator returns what stands before the i-th of some values.
func separator(i int, begin byte) byte {
	if i == 0 {
		return begin
	}
	return ','
}

// arguments appends the names of arguments, and what else is to be recorded of them.
func (e *encoder) arguments(a *Arguments) {
	members := a.Members
	if len(members) == 0 {
		return
	}
	if len(members) > maxArguments {
		members, e.cut = members[:maxArguments], true
	}
	e.dst = append(e.dst, `,"arguments":`...)
	for i := range members {
		e.dst = append(e.dst, separator(i, '['))
		e.quote(members[i].Name, maxText)
	}
	e.dst = append(e.dst, ']')
	switch {
	case a.Record == config.AuditHash && a.Hash != nil:
		e.dst = append(e.dst, `,"argument_hashes":`...)
		e.pairs(members, func(value jsontext.Value, _ int) {
			e.dst = append(a.Hash.AppendHex(append(e.dst, '"'), unquoted(value)), '"')
		})
	case a.Record == config.AuditValues:
		e.dst = append(e.dst, `,"argument_values":`...)
		e.pairs(members, e.value)
	}
}

// pairs appends an object of arguments, each with what appendValue appends for its value, at most so many bytes of it.
func (e *encoder) pairs(members wire.Object, appendValue func(value jsontext.Value, left int)) {
	begun := len(e.dst)
	for i := range members {
		e.dst = append(e.dst, separator(i, '{'))
		e.quote(members[i].Name, maxText)
		e.dst = append(e.dst, ':')
		appendValue(members[i].Value, max(0, maxValues-(len(e.dst)-begun)))
	}
	e.dst = append(e.dst, '}')
}

// value appends the value of an argument as a text, at most so many bytes of it. Most are texts without escapes, and stay as they are.
func (e *encoder) value(value jsontext.Value, left int) {
	most := min(left, maxValue)
	if text := unquoted(value); len(text) <= most && value.Kind() == '"' && isPlain(text) {
		e.dst = append(e.dst, value...)
	} else {
		e.quote(string(text), most)
	}
}

// unquoted returns the text of a JSON string, of another value its JSON. It allocates for escapes only.
func unquoted(value jsontext.Value) []byte {
	if value.Kind() != '"' || len(value) < 2 {
		return value
	}
	if text := value[1 : len(value)-1]; bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return value
	}
	return text
}
