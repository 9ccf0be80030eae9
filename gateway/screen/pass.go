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
	// maxRounds bounds how often a text is stripped: removing one match may make another.
	maxRounds = 16
	// maxNoted bounds the noted findings of one definition or result, which may have one per byte.
	maxNoted = 100
)

// pass is one pass over one JSON value.
type pass struct {
	screen   *Screen
	raw      jsontext.Value
	canceled <-chan struct{} // when closed, the rest is not checked
	rejected *Finding
	noted    []Finding
	// out is raw[:copied] without the stripped text; nil if nothing was stripped yet.
	out    []byte
	copied int64
}

// reject handles a finding that cannot be stripped. If the block only warns, the finding is noted;
// otherwise it rejects the whole value.
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

// checkName checks the exposed name; "" for none. A prefix or a prompt block may add text that the
// definition's name does not contain. A finding in both names is recorded once.
func (p *pass) checkName(exposed string) {
	if exposed == "" {
		return
	}
	const at = "/name"
	for _, b := range p.screen.blocks {
		// The name is not stripped, because clients get the prompt by it.
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

// checkWhole checks the size, the number of steps and skills and, in results, the content types and
// the form of messages.
func (p *pass) checkWhole(isResult bool) {
	var parts []part
	if isResult && slices.ContainsFunc(p.screen.blocks, func(b block) bool { return b.WellFormed || b.Content != nil }) {
		parts = partsOf(p.raw) // once for all blocks
	}
	for _, b := range p.screen.blocks {
		if b.MaxSize > 0 && len(p.raw) > b.MaxSize {
			p.reject(b, "size", "")
		}
		if b.exceeds(p.raw) {
			p.reject(b, "budget", "")
		}
		p.checkSkill(b)
		if b.WellFormed {
			for i := range parts {
				for _, at := range parts[i].malformed() {
					p.reject(b, "wellformed", at)
				}
			}
		}
		if b.Content != nil {
			for i := range parts {
				if kind, ok := parts[i].contentType(); ok && !slices.Contains(b.Content, kind) {
					p.reject(b, "content", parts[i].at)
				}
			}
		}
	}
}

// checkStrings checks every string, and copies the rest unchanged.
func (p *pass) checkStrings() {
	// Without such a block no string is checked, so decoding is not needed.
	if !slices.ContainsFunc(p.screen.blocks, func(b block) bool { return b.Invisible || b.Patterns != nil }) {
		return
	}
	decoder := jsontext.NewDecoder(bytes.NewBuffer(p.raw)) // the decoder reads a bytes.Buffer without a copy
	for p.rejected == nil && !isClosed(p.canceled) {
		// Member names are strings to the decoder, too.
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
		// The decoder has checked that it is a valid string.
		text, _ := wire.Text(quoted)
		if kept := p.checkText(text, decoder); kept != text {
			end := decoder.InputOffset()
			p.out = append(append(p.out, p.raw[p.copied:end-int64(len(quoted))]...), wire.Quote(kept)...)
			p.copied = end
		}
	}
}

// ended rejects a value that could not be read to its end, because the rest was not checked.
func (p *pass) ended(err error) {
	if !errors.Is(err, io.EOF) { // cannot happen: the value was parsed before
		p.reject(p.screen.blocks[0], "unreadable", "")
	}
}

// checkText returns one string without the stripped text. It repeats the check until nothing
// changes, because the text on both sides of a match may form another match.
func (p *pass) checkText(text string, at *jsontext.Decoder) string {
	for round := 0; ; round++ {
		before := text
		for _, b := range p.screen.blocks {
			text = p.checkBlock(b, text, at)
		}
		// A rejected value need not be stripped.
		if text == before || p.rejected != nil || isClosed(p.canceled) {
			return text
		}
		if round == maxRounds {
			b := p.screen.blocks[0]
			// A text that needs more rounds is an attack on the screen.
			p.rejected = &Finding{b.Screen, "too much to strip", pointer(at), b.throttle}
			return text
		}
	}
}

// checkBlock applies one block to a text, and returns the text without the stripped parts.
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
	if b.exceeds(p.raw) { // found before; the block only warns
		return text
	}
	for i, re := range b.Patterns {
		check(fmt.Sprintf("pattern %d", i+1), p.matches(re, text), func() string { return p.remove(re, text) })
	}
	return text
}

// strippable reports whether people and models read the last string.
func strippable(at *jsontext.Decoder) bool {
	switch at.StackPointer().LastToken() {
	case "title", "description", "text":
		return !isName(at)
	}
	return false
}
