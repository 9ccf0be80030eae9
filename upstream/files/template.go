package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/promptweir/promptweir/upstream/wire"
)

// maxGaps and maxMessages bound the gaps and the messages of one prompt: each takes several times
// the memory of its text.
const (
	maxGaps     = 10_000
	maxMessages = 10_000
)

// message is one message of a prompt, before values are put in.
type message struct {
	role string
	// pieces are its text; empty where it has media.
	pieces []piece
	media  *media
}

// piece is a text or a gap.
type piece struct {
	text string
	gap  gap
}

// builder makes messages.
type builder struct {
	role     string
	messages []message
	pieces   []piece
	// pending is text that is not a piece yet.
	pending []byte
	// gaps counts them; those above maxGaps are left out, since the prompt is refused.
	gaps int
}

func (b *builder) add(text string) { b.pending = append(b.pending, text...) }

// gap adds a gap.
func (b *builder) gap(g gap) {
	if b.gaps++; b.gaps > maxGaps {
		return
	}
	b.flush()
	g.isSet = true
	b.pieces = append(b.pieces, piece{gap: g})
}

func (b *builder) flush() {
	if len(b.pending) > 0 {
		b.pieces = append(b.pieces, piece{text: string(b.pending)})
		b.pending = b.pending[:0]
	}
}

// begin ends the present message and begins one of a role.
func (b *builder) begin(role string) {
	b.end()
	b.role = role
}

// end adds the present message, unless it is blank.
func (b *builder) end() {
	b.flush()
	if pieces := trim(b.pieces); len(pieces) > 0 {
		b.messages = append(b.messages, message{role: b.role, pieces: pieces})
	}
	b.pieces = nil
}

// addMedia adds a message of the present role: the protocol gives each message one content.
func (b *builder) addMedia(m *media) {
	b.end()
	b.messages = append(b.messages, message{role: b.role, media: m})
}

// trim removes blank lines at both ends of a text. What is beside a gap stays: its value is not
// known yet.
func trim(pieces []piece) []piece {
	if last := len(pieces) - 1; last >= 0 && !pieces[last].gap.isSet {
		if pieces[last].text = strings.TrimRight(pieces[last].text, " \t\r\n"); pieces[last].text == "" {
			pieces = pieces[:last]
		}
	}
	if len(pieces) > 0 && !pieces[0].gap.isSet {
		text := pieces[0].text
		for {
			line, rest, found := strings.Cut(text, "\n")
			if !found || strings.TrimSpace(line) != "" {
				break
			}
			text = rest
		}
		if pieces[0].text = text; text == "" {
			pieces = pieces[1:]
		}
	}
	return pieces
}

// size is that of a message's text or media, in bytes.
func (m *message) size() int {
	if m.media != nil {
		return len(m.media.base64)
	}
	size := 0
	for _, p := range m.pieces {
		size += len(p.text)
	}
	return size
}

// compiler writes the JSON of a get's result as segments.
type compiler struct {
	json     []byte // of all segments but media
	ends     []int  // of the segments, in json
	segments []segment
}

// end ends the present segment, which a gap follows, or media.
func (c *compiler) end(g gap, m *media) {
	c.ends = append(c.ends, len(c.json))
	c.segments = append(c.segments, segment{gap: g})
	if m != nil {
		c.ends = append(c.ends, len(c.json))
		c.segments = append(c.segments, segment{json: m.base64})
	}
}

// compile makes the segments of messages.
func (p *Prompt) compile(description string, messages []message) {
	var c compiler
	c.json = append(c.json, '{')
	if description != "" {
		c.json = append(append(append(c.json, `"description":`...), wire.Quote(description)...), ',')
	}
	c.json = append(c.json, `"messages":[`...)
	for i, m := range messages {
		if i > 0 {
			c.json = append(c.json, ',')
		}
		c.json = append(append(append(c.json, `{"role":`...), wire.Quote(m.role)...), `,"content":{"type":`...)
		if m.media != nil {
			p.media = append(p.media, m.media)
			c.json = append(append(c.json, wire.Quote(m.media.kind)...), `,"data":"`...)
			c.end(gap{}, m.media)
			c.json = append(append(append(c.json, `","mimeType":`...), wire.Quote(m.media.mime)...), `}}`...)
			continue
		}
		c.json = append(c.json, `"text","text":"`...)
		for _, piece := range m.pieces {
			if piece.gap.isSet {
				c.end(piece.gap, nil)
			} else {
				c.json = append(c.json, content(piece.text)...)
			}
		}
		c.json = append(c.json, `"}}`...)
	}
	c.json = append(c.json, `]}`...)
	c.end(gap{}, nil)
	// One allocation for all, and of the exact size: the one that grew has room for a quarter more.
	json, at := bytes.Clone(c.json), 0
	for i, end := range c.ends {
		s := &c.segments[i]
		if s.json == nil {
			s.json = json[at:end:end]
		}
		at, p.fixed = end, p.fixed+len(s.json)
	}
	p.segments = slices.Concat(c.segments)
}

// hashText returns a hash of messages, with the names and the defaults of the arguments that fill
// their gaps.
func hashText(messages []message, arguments []argument) string {
	hash := sha256.New()
	add := func(texts ...string) { // each with its length, so that no two lists of texts are written alike
		for _, text := range texts {
			fmt.Fprintf(hash, "%d:%s", len(text), text)
		}
	}
	for _, m := range messages {
		add("message", m.role)
		if m.media != nil {
			add("media", m.media.mime, string(m.media.base64))
		}
		for _, p := range m.pieces {
			add("text", p.text)
			if p.gap.isSet {
				a := &arguments[p.gap.argument]
				add("argument", a.name, string(a.fallback), strconv.Itoa(int(p.gap.word)))
				if p.gap.missing != "" {
					add(p.gap.missing)
				}
				if p.gap.takesRest {
					add("rest")
				}
			}
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}
