package screen

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxRounds is how often a text is stripped until nothing more is found: removing one match may
	// make another.
	maxRounds = 16
	// maxNoted bounds the findings that are noted of one definition or result, which may have one
	// for each byte.
	maxNoted = 100
)

// pass is one pass over one JSON value.
type pass struct {
	screen   *Screen
	raw      jsontext.Value
	canceled <-chan struct{} // once it is closed, the rest is not checked
	rejected *Finding
	noted    []Finding
	// out is raw[:copied] without what was stripped; nil if nothing was stripped so far.
	out    []byte
	copied int64
}

// reject handles a finding that cannot be stripped: it is noted if the block only warns, and
// rejects the whole otherwise.
func (p *pass) reject(b block, check, at string) {
	f := Finding{Block: b.Screen, Check: check, At: at, throttle: b.throttle}
	if b.Action == config.ScreenWarn {
		p.note(f)
	} else if p.rejected == nil {
		p.rejected = &f
	}
}

// note records a finding that does not reject the whole, once.
func (p *pass) note(f Finding) {
	if len(p.noted) < maxNoted && !slices.Contains(p.noted, f) {
		p.noted = append(p.noted, f)
	}
}

// checkName checks the exposed name, "" for none. It has the prefix or comes from a prompt block,
// so that it may contain what the name in the definition does not; what both contain is one
// finding.
func (p *pass) checkName(exposed string) {
	if exposed == "" {
		return
	}
	const at = "/name"
	for _, b := range p.screen.blocks {
		// The name is not stripped: clients get the prompt by it.
		if b.Invisible && hasInvisible(exposed) {
			p.reject(b, "invisible", at)
		}
		for i, re := range b.Patterns {
			if re.MatchString(exposed) {
				p.reject(b, fmt.Sprintf("pattern %d", i+1), at)
			}
		}
	}
}

// checkWhole checks the size, the content types and the form of messages.
func (p *pass) checkWhole(types func(jsontext.Value) []contentType) {
	var contents []contentType
	for _, b := range p.screen.blocks {
		if b.MaxSize > 0 && len(p.raw) > b.MaxSize {
			p.reject(b, "size", "")
		}
		if b.exceeds(p.raw) {
			p.reject(b, "budget", "")
		}
		p.checkSkill(b)
		if types == nil { // a definition has no messages
			continue
		}
		if b.WellFormed {
			for _, at := range malformed(p.raw) {
				p.reject(b, "wellformed", at)
			}
		}
		if b.Content == nil {
			continue
		}
		if contents == nil { // once for all blocks
			contents = types(p.raw)
		}
		for _, c := range contents {
			if !slices.Contains(b.Content, c.kind) {
				p.reject(b, "content", c.at)
			}
		}
	}
}

// checkStrings checks every string, and copies what it does not change.
func (p *pass) checkStrings() {
	// Without such a block there is nothing to look for in strings, and no need to decode.
	if !slices.ContainsFunc(p.screen.blocks, func(b block) bool { return b.Invisible || b.Patterns != nil }) {
		return
	}
	decoder := jsontext.NewDecoder(bytes.NewBuffer(p.raw)) // which it reads without a copy, unlike other readers
	for p.rejected == nil && !isClosed(p.canceled) {
		// Names of members are strings to the decoder, too.
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
		// It is a valid string, or the decoder would not have read it.
		text, _ := wire.Text(quoted)
		if kept := p.checkText(text, decoder); kept != text {
			end := decoder.InputOffset()
			p.out = append(append(p.out, p.raw[p.copied:end-int64(len(quoted))]...), wire.Quote(kept)...)
			p.copied = end
		}
	}
}

// ended rejects a value that could not be read to its end: the rest was not checked.
func (p *pass) ended(err error) {
	if !errors.Is(err, io.EOF) { // does not happen to a value that was parsed before
		p.reject(p.screen.blocks[0], "unreadable", "")
	}
}

// checkText returns what is left of one string. It repeats the check until a round changes nothing,
// since what is left on both sides of a match may form another.
func (p *pass) checkText(text string, at *jsontext.Decoder) string {
	for round := 0; ; round++ {
		before := text
		for _, b := range p.screen.blocks {
			text = p.checkBlock(b, text, at)
		}
		// What is rejected need not be stripped.
		if text == before || p.rejected != nil || isClosed(p.canceled) {
			return text
		}
		if round == maxRounds {
			b := p.screen.blocks[0]
			// A text made to need more rounds than this is an attack on the screen.
			p.rejected = &Finding{b.Screen, "too much to strip", pointer(at), b.throttle}
			return text
		}
	}
}

// checkBlock returns what one block leaves of a text.
func (p *pass) checkBlock(b block, text string, at *jsontext.Decoder) string {
	check := func(name string, hit bool, strip func() string) {
		switch {
		// Only the top-level requestState is exempt: the upstream must get it back unchanged.
		case !hit || at.StackPointer() == "/requestState":
		case b.Action == config.ScreenStrip && strippable(at):
			text = strip()
			p.note(Finding{b.Screen, name, pointer(at), b.throttle})
		default:
			p.reject(b, name, pointer(at))
		}
	}
	if b.Invisible {
		check("invisible", hasInvisible(text), func() string { return visible(text) })
	}
	if b.exceeds(p.raw) { // which has been found, and the block only warns
		return text
	}
	for i, re := range b.Patterns {
		check(fmt.Sprintf("pattern %d", i+1), p.matches(re, text), func() string { return p.remove(re, text) })
	}
	return text
}

// strippable reports whether the string that was read last is one that people and models read.
func strippable(at *jsontext.Decoder) bool {
	switch at.StackPointer().LastToken() {
	case "title", "description", "text":
		return !isName(at)
	}
	return false
}
