// Package screen answers: is there anything in what an upstream says that people and models are not to get?
//
// A [Screen] is the screen blocks that hold for one team's prompts. It goes through the strings of raw JSON, names of
// members included, and what it does not have to change keeps its bytes. Promises:
//
//   - What is stripped is stripped for good: a second pass finds nothing to strip.
//   - Only title, description and text are ever changed, which is what people and models read. In a name, a URI or data
//     it would make another thing of it, so that what is to be stripped there rejects the whole.
//   - No [Finding] repeats what was found.
//   - It is pure, but for the clock that keeps warnings rare. A Screen never changes and is safe for concurrent use.
package screen

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxRounds is how often a text is stripped until nothing is found: what is left may make a match anew.
	maxRounds = 16
	// maxNoted bounds what is noted of one definition or result: there may be as many findings as bytes.
	maxNoted = 100
	// alarmInterval is how often the same block warns of results.
	alarmInterval = time.Minute
)

// Screen is blocks in the order in which they look. The nil Screen finds nothing.
type Screen struct{ blocks []block }

type block struct {
	*config.Screen

	alarm *rate.Sometimes
}

// New returns the screen of some blocks; nil where there is none.
func New(blocks []config.Screen) *Screen {
	if len(blocks) == 0 {
		return nil
	}
	s := &Screen{}
	for i := range blocks {
		s.blocks = append(s.blocks, block{&blocks[i], &rate.Sometimes{First: 1, Interval: alarmInterval}})
	}
	return s
}

// Finding is something that a block forbids.
type Finding struct {
	Block *config.Screen
	// Check says what of the block it is: size, content, invisible, or pattern and its number.
	Check string
	// At is where, as a JSON pointer; empty for the whole.
	At string

	alarm *rate.Sometimes
}

// String says it without repeating what was found.
func (f Finding) String() string {
	at := ""
	if f.At != "" {
		at = " at " + f.At
	}
	return fmt.Sprintf("%s%s (screen %q)", f.Check, at, f.Block.Label)
}

// Rarely calls report at most once a minute for the finding's block.
func (f Finding) Rarely(report func()) { f.alarm.Do(report) }

// Outcome is what became of one definition or result.
type Outcome struct {
	// JSON is what may be passed on; nil where it is rejected.
	JSON jsontext.Value
	// Rejected is why not; nil where it may be.
	Rejected *Finding
	// Noted is what was found and either stripped or let through, the first 100 of it.
	Noted []Finding
}

// Definition screens a prompt's definition.
func (s *Screen) Definition(raw jsontext.Value) Outcome { return s.screen(raw, nil) }

// Result screens the result of a get or of a completion, or the params of what a server asks or says meanwhile. A requestState is the upstream's own and is left alone.
func (s *Screen) Result(raw jsontext.Value) Outcome { return s.screen(raw, contentTypes) }

func (s *Screen) screen(raw jsontext.Value, types func(jsontext.Value) []found) Outcome {
	if s == nil {
		return Outcome{JSON: raw}
	}
	p := pass{screen: s, raw: raw}
	p.whole(types)
	p.strings()
	switch {
	case p.rejected != nil:
		return Outcome{Rejected: p.rejected, Noted: p.noted}
	case p.out == nil:
		return Outcome{JSON: raw, Noted: p.noted}
	}
	return Outcome{JSON: append(p.out, raw[p.copied:]...), Noted: p.noted}
}

// pass is one way through one JSON value.
type pass struct {
	screen   *Screen
	raw      jsontext.Value
	rejected *Finding
	noted    []Finding
	// out is raw up to copied with what was stripped gone; nil while nothing was.
	out    []byte
	copied int64
}

// find notes a finding that cannot be stripped.
func (p *pass) find(b block, check, at string) {
	f := Finding{Block: b.Screen, Check: check, At: at, alarm: b.alarm}
	if b.Action == config.ScreenWarn {
		p.note(f)
	} else if p.rejected == nil {
		p.rejected = &f
	}
}

func (p *pass) note(f Finding) {
	if len(p.noted) < maxNoted {
		p.noted = append(p.noted, f)
	}
}

// whole checks what is not about single strings.
func (p *pass) whole(types func(jsontext.Value) []found) {
	var contents []found
	for _, b := range p.screen.blocks {
		if b.MaxSize > 0 && len(p.raw) > b.MaxSize {
			p.find(b, "size", "")
		}
		if b.Content == nil || types == nil {
			continue
		}
		if contents == nil {
			contents = types(p.raw)
		}
		for _, c := range contents {
			if !slices.Contains(b.Content, c.kind) {
				p.find(b, "content", c.at)
			}
		}
	}
}

// found is a content type and where it is.
type found struct{ kind, at string }

// contentTypes returns those of the messages of a result, and of what it asks of the client. What cannot be read, or what a
// reader who does not mind the case of letters would read otherwise, has none that a block could allow.
func contentTypes(result jsontext.Value) []found {
	object, _ := wire.ParseObject(result)
	all := messageTypes(object, "")
	for _, question := range object.Object("inputRequests") {
		params := wire.Members(question.Value).Object("params")
		all = append(all, messageTypes(params, "/inputRequests/"+shown(question.Name)+"/params")...)
	}
	return all
}

// messageTypes are those of an object with messages, which stands at a place.
func messageTypes(object wire.Object, at string) (all []found) {
	at += "/messages"
	value := object.Get("messages")
	messages, err := wire.ParseArray(value)
	if none := value == nil || value.Kind() == 'n'; err != nil && !none || object.Folded("messages") != "" {
		all = append(all, found{at: at})
	}
	for i, raw := range messages {
		message, _ := wire.ParseObject(raw)
		if message.Folded("content") != "" {
			all = append(all, found{at: fmt.Sprintf("%s/%d", at, i)})
		}
		content, at := message.Get("content"), fmt.Sprintf("%s/%d/content", at, i)
		if content.Kind() != '[' {
			all = append(all, found{kindOf(content), at})
			continue
		}
		parts, _ := wire.ParseArray(content)
		for j, part := range parts {
			all = append(all, found{kindOf(part), fmt.Sprintf("%s/%d", at, j)})
		}
	}
	return all
}

func kindOf(content jsontext.Value) string {
	object, _ := wire.ParseObject(content)
	if object.Folded("type") != "" {
		return ""
	}
	kind, _ := object.Text("type")
	return kind
}

// strings goes through every string.
func (p *pass) strings() {
	looks := slices.ContainsFunc(p.screen.blocks, func(b block) bool { return b.Invisible || len(b.Patterns) > 0 })
	decoder := jsontext.NewDecoder(bytes.NewBuffer(p.raw))
	for looks && p.rejected == nil {
		if decoder.PeekKind() != '"' {
			if _, err := decoder.ReadToken(); err != nil {
				p.ended(err)
				return
			}
			continue
		}
		quoted, err := decoder.ReadValue()
		if err != nil {
			p.ended(err)
			return
		}
		text, _ := wire.Text(quoted)
		if kept := p.text(text, decoder); kept != text {
			end := decoder.InputOffset()
			p.out = append(append(p.out, p.raw[p.copied:end-int64(len(quoted))]...), wire.Quote(kept)...)
			p.copied = end
		}
	}
}

// ended finds out whether all was seen: what could not be read was not looked at.
func (p *pass) ended(err error) {
	if !errors.Is(err, io.EOF) { // it was parsed before
		p.find(p.screen.blocks[0], "not to be read", "")
	}
}

// text returns what is left of one string.
func (p *pass) text(text string, at *jsontext.Decoder) string {
	for round := 0; ; round++ {
		before := text
		for _, b := range p.screen.blocks {
			text = p.block(b, text, at, round == 0)
		}
		if text == before || p.rejected != nil {
			return text
		}
		if round == maxRounds {
			b := p.screen.blocks[0]
			p.rejected = &Finding{b.Screen, "too much to strip", place(at), b.alarm}
			return text
		}
	}
}

// block looks for what one block forbids. What is let through is noted in the first round only.
func (p *pass) block(b block, text string, at *jsontext.Decoder, first bool) string {
	check := func(name string, hit bool, strip func() string) {
		switch {
		case !hit || at.StackPointer() == "/requestState":
		case b.Action == config.ScreenStrip && strippable(at):
			text = strip()
			if first {
				p.note(Finding{b.Screen, name, place(at), b.alarm})
			}
		case b.Action != config.ScreenWarn || first:
			p.find(b, name, place(at))
		}
	}
	if b.Invisible {
		check("invisible", hasInvisible(text), func() string { return visible(text) })
	}
	for i, re := range b.Patterns {
		check(fmt.Sprintf("pattern %d", i+1), re.MatchString(text), func() string { return re.ReplaceAllLiteralString(text, "") })
	}
	return text
}

// isName reports whether the string that was read last is the name of a member.
func isName(at *jsontext.Decoder) bool {
	kind, length := at.StackIndex(at.StackDepth())
	return kind == '{' && length%2 == 1
}

// strippable reports whether the string that was read last is one that is for reading.
func strippable(at *jsontext.Decoder) bool {
	switch at.StackPointer().LastToken() {
	case "title", "description", "text":
		kind, _ := at.StackIndex(at.StackDepth())
		return kind == '{' && !isName(at)
	}
	return false
}

// plain is a part of a pointer that says nothing but where something is.
var plain = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// place is where the string that was read last is. Names that a server could put a message into are left out.
func place(at *jsontext.Decoder) string {
	pointer := at.StackPointer()
	if isName(at) {
		pointer = pointer.Parent()
	}
	var out strings.Builder
	for part := range pointer.Tokens() {
		out.WriteString("/" + shown(part))
	}
	return out.String()
}

// shown is a name as it may stand in a place.
func shown(name string) string {
	if plain.MatchString(name) {
		return name
	}
	return "…"
}
