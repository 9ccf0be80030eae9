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
	// maxRounds bounds the repetitions of stripping: removing one match may create another.
	maxRounds = 16
	// maxNoted bounds the noted findings of one definition or result. A hostile value could cause a finding per
	// byte.
	maxNoted = 100
)

// pass is one pass over one JSON value.
type pass struct {
	screen   *Screen
	raw      jsontext.Value
	canceled <-chan struct{} // closed to stop the pass early; may be nil
	rejected *Finding        // the first finding that rejects the value, or nil if there is none
	noted    []Finding
	// out is raw[:copied] without the stripped text. It is nil until something is stripped.
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

// note records a finding that does not reject the value. It ignores duplicates.
func (p *pass) note(f Finding) {
	if len(p.noted) < maxNoted && !slices.Contains(p.noted, f) {
		p.noted = append(p.noted, f)
	}
}

// checkName checks the exposed name, which may contain a prefix or a name from a prompt block. An
// empty name is not checked.
func (p *pass) checkName(exposed string) {
	if exposed == "" {
		return
	}
	const at = "/name"
	for _, b := range p.screen.blocks {
		// Reject instead of stripping: clients get the prompt by this name.
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

// checkWhole makes the checks that do not look at single strings: the size, the steps of the patterns,
// skills and, in results, the content types and the form of messages.
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

// checkStrings checks every string of the value. If it strips text, it writes the value to p.out.
func (p *pass) checkStrings() {
	// Decode only if a block checks strings.
	if !slices.ContainsFunc(p.screen.blocks, func(b block) bool { return b.Invisible || b.Patterns != nil }) {
		return
	}
	decoder := jsontext.NewDecoder(bytes.NewBuffer(p.raw)) // the decoder reads a bytes.Buffer without a copy
	for p.rejected == nil && !isClosed(p.canceled) {
		// For the decoder, a member name is a string like any other.
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
		text, _ := wire.Text(quoted) // no error: ReadValue returns only valid strings
		if stripped := p.checkText(text, decoder); stripped != text {
			end := decoder.InputOffset()
			p.out = append(append(p.out, p.raw[p.copied:end-int64(len(quoted))]...), wire.Quote(stripped)...)
			p.copied = end
		}
	}
}

// ended handles the error that ended the decoding. An error other than io.EOF rejects the value,
// because a part of it was not checked.
func (p *pass) ended(err error) {
	if !errors.Is(err, io.EOF) { // cannot happen: the value was parsed before
		p.reject(p.screen.blocks[0], "unreadable", "")
	}
}

// checkText applies all blocks to one string, and returns the string without the stripped text. It
// repeats until nothing changes: the text on both sides of a removed match may form another match.
func (p *pass) checkText(text string, at *jsontext.Decoder) string {
	for round := 0; ; round++ {
		before := text
		for _, b := range p.screen.blocks {
			text = p.checkBlock(b, text, at)
		}
		if text == before || p.rejected != nil || isClosed(p.canceled) {
			return text
		}
		if round == maxRounds {
			b := p.screen.blocks[0] // several blocks may be involved: name the first
			p.rejected = &Finding{b.Screen, "too much to strip", pointer(at), b.throttle}
			return text
		}
	}
}

// checkBlock applies one block to a string, and returns the string without the stripped text.
func (p *pass) checkBlock(b block, text string, at *jsontext.Decoder) string {
	check := func(name string, hit bool, strip func() string) {
		switch {
		// The requestState of a result is exempt: the upstream must get it back unchanged.
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
	if b.exceeds(p.raw) { // checkWhole has noted that the patterns cost too much, so they are skipped
		return text
	}
	for i, re := range b.Patterns {
		check(fmt.Sprintf("pattern %d", i+1), p.matches(re, text), func() string { return p.remove(re, text) })
	}
	return text
}

// strippable reports whether the decoder's last string may be stripped: it is the value of a member
// that people and models read.
func strippable(at *jsontext.Decoder) bool {
	return slices.Contains([]string{"title", "description", "text"}, at.StackPointer().LastToken()) && !isName(at)
}
