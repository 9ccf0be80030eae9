package files

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/promptweir/promptweir/upstream/wire"
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

// media is an image or a sound.
type media struct {
	kind, mime string // kind is the content's type in the protocol
	base64     []byte
}

// builder makes messages.
type builder struct {
	role     string
	messages []message
	pieces   []piece
	// pending is text that is not a piece yet.
	pending []byte
}

func (b *builder) text(text string) { b.pending = append(b.pending, text...) }

// gap adds the value of an argument or, with a word above 0, one of its words.
func (b *builder) gap(argument, word int) {
	b.flush()
	b.pieces = append(b.pieces, piece{gap: gap{argument, word, true}})
}

func (b *builder) flush() {
	if len(b.pending) > 0 {
		b.pieces = append(b.pieces, piece{text: string(b.pending)})
		b.pending = nil
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

// add adds an image or a sound as a message of the present role: the protocol gives each message one content.
func (b *builder) add(m *media) {
	b.end()
	b.messages = append(b.messages, message{role: b.role, media: m})
}

// trim removes blank lines at both ends of a text. What is beside a gap stays: its value is not known yet.
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

// size is what a message's text or media take, in bytes.
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

// compile returns the JSON of a get's result as segments.
func compile(description string, messages []message) (segments []segment) {
	var json []byte
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
			json = append(append(append(json, wire.Quote(m.media.kind)...), `,"data":"`...), m.media.base64...)
			json = append(append(append(json, `","mimeType":`...), wire.Quote(m.media.mime)...), `}}`...)
			continue
		}
		json = append(json, `"text","text":"`...)
		for _, p := range m.pieces {
			if !p.gap.isSet {
				json = append(json, content(p.text)...)
				continue
			}
			segments = append(segments, segment{json, p.gap})
			json = nil
		}
		json = append(json, `"}}`...)
	}
	return append(segments, segment{json: append(json, `]}`...)})
}

// hashText returns a hash of messages, with the names and the defaults of the arguments that fill their gaps.
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
				add("argument", a.name, string(a.fallback), strconv.Itoa(p.gap.word))
			}
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}
