package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/promptweir/promptweir/upstream/wire"
)

// maxGaps and maxMessages bound the gaps and the messages of one prompt, because each needs several times the memory of its text.
const (
	maxGaps     = 10_000
	maxMessages = 10_000
)

// message is one message of a prompt, before values fill its gaps.
type message struct {
	role string
	// pieces are the text of the message. They are empty for media.
	pieces []piece
	media  *media
}

// piece is a text or a gap.
type piece struct {
	text string
	gap  gap
}

// builder makes the messages of a prompt from texts, gaps and media.
type builder struct {
	role     string
	messages []message
	pieces   []piece
	// pending is text that is not yet a piece.
	pending []byte
	// gaps counts the gaps. Gaps after the first maxGaps are left out, because [parser.finish] will
	// refuse the prompt.
	gaps int
}

func (b *builder) add(text string) { b.pending = append(b.pending, text...) }

// gap adds a gap to the current message.
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

// begin ends the current message and begins a message of the given role.
func (b *builder) begin(role string) {
	b.end()
	b.role = role
}

// end adds the current message, unless it is blank.
func (b *builder) end() {
	b.flush()
	if pieces := trim(b.pieces); len(pieces) > 0 {
		b.messages = append(b.messages, message{role: b.role, pieces: pieces})
	}
	b.pieces = nil
}

// addMedia ends the current message and adds the media as a message of the same role, because a
// message has only one content.
func (b *builder) addMedia(m *media) {
	b.end()
	b.messages = append(b.messages, message{role: b.role, media: m})
}

// trim removes blank lines at both ends of a text. It keeps them beside a gap, whose value may need
// them.
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

// size returns the size of a message's text or media, in bytes.
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

// compile makes the segments of the get's result from the description and the messages.
func (p *Prompt) compile(description string, messages []message) {
	var json []byte // the JSON after the last segment
	end := func(g gap) {
		p.segments = append(p.segments, segment{bytes.Clone(json), g})
		json = json[:0]
	}
	json = append(json, '{')
	if description != "" {
		json = append(append(append(json, `"description":`...), wire.Quote(description)...), ',')
	}
	json = append(json, `"messages":[`...)
	for i, m := range messages {
		if i > 0 {
			json = append(json, ',')
		}
		json = append(append(append(json, `{"role":`...), wire.Quote(m.role)...), `,"content":{"type":`...)
		if m.media != nil {
			json = append(append(json, wire.Quote(m.media.kind)...), `,"data":"`...)
			end(gap{})
			p.segments = append(p.segments, segment{json: m.media.base64}) // shared with other prompts
			json = append(append(append(json, `","mimeType":`...), wire.Quote(m.media.mime)...), `}}`...)
			continue
		}
		json = append(json, `"text","text":"`...)
		for _, piece := range m.pieces {
			if piece.gap.isSet {
				end(piece.gap)
			} else {
				json = append(json, content(piece.text)...)
			}
		}
		json = append(json, `"}}`...)
	}
	json = append(json, `]}`...)
	end(gap{})
	for _, s := range p.segments {
		p.fixed += len(s.json)
	}
}

// hashText returns a hash of messages, with the names and the defaults of their arguments.
func hashText(messages []message, arguments []argument) string {
	hash := sha256.New()
	add := func(texts ...string) { // the lengths make sure that different lists have different bytes
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
