package flat

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	user      = "user"
	assistant = "assistant"
	// maxNote bounds what is said of something that is no text, in bytes.
	maxNote = 400
)

// Result returns the result of a get, which has been checked, with one message of the user's. A
// result that asks for input stays as it is.
func Result(result jsontext.Value) jsontext.Value {
	object := wire.Members(result)
	messages := object.Get("messages")
	if messages.Kind() != '[' {
		return result
	}
	text, _ := Text(messages, false)
	message := wire.Object{}.With("role", wire.Quote(user)).With("content", Block(text))
	return object.With("messages", wire.Array([]jsontext.Value{message.JSON()})).JSON()
}

// Block returns a text as a block of content.
func Block(text string) jsontext.Value {
	return wire.Object{}.With("type", wire.Quote("text")).With("text", wire.Quote(text)).JSON()
}

// Text joins the messages of a result. What is no text becomes a line that says what it was. With
// attach, images, audio and resources are returned beside the text, in order.
func Text(messages jsontext.Value, attach bool) (text string, attached []jsontext.Value) {
	var joined strings.Builder
	list, _ := wire.ParseArray(messages) // of a result that has been checked
	last := ""
	if len(list) == 1 {
		last = user // a prompt's usual message needs no heading
	}
	for _, value := range list {
		message := wire.Members(value)
		role, content := user, []jsontext.Value{message.Get("content")}
		if told, _ := message.Text("role"); told == assistant {
			role = assistant
		}
		if content[0].Kind() == '[' { // as in messages for sampling
			content, _ = wire.ParseArray(content[0])
		}
		if role != last {
			separate(&joined, "## "+role)
			last = role
		}
		for _, block := range content {
			part, other := read(wire.Members(block), attach)
			if other {
				attached = append(attached, block)
			}
			separate(&joined, part)
		}
	}
	return joined.String(), attached
}

func separate(joined *strings.Builder, part string) {
	if joined.Len() > 0 {
		joined.WriteString("\n\n")
	}
	joined.WriteString(part)
}

// read returns the text of a block, or a line that says what it is instead, and whether it is to be
// attached.
func read(block wire.Object, attach bool) (text string, other bool) {
	kind, _ := block.Text("type")
	resource := block
	if kind == "resource" {
		resource = block.Object("resource")
	}
	if value := resource.Get("text"); value.Kind() == '"' && (kind == "text" || kind == "resource") {
		text, _ = wire.Text(value)
		return indent(text), false
	}
	note := kind
	if uri, ok := resource.Text("uri"); ok {
		note += " " + uri
	}
	if mime, ok := resource.Text("mimeType"); ok {
		note += " (" + mime + ")"
	}
	switch kind {
	case "image", "audio", "resource", "resource_link":
		other = attach
	}
	fate := "left out"
	if other {
		fate = "attached"
	}
	return "[" + wire.Printable(wire.Clip(note, maxNote)) + " " + fate + "]", other
}

// indent puts a blank before each line that reads as a heading.
func indent(text string) string {
	if !strings.Contains(text, "#") {
		return text
	}
	var indented strings.Builder
	for rest := text; rest != ""; {
		end, size := len(rest), 0
		if at := strings.IndexFunc(rest, isBreak); at >= 0 {
			end = at
			_, size = utf8.DecodeRuneInString(rest[at:])
		}
		if isHeading(rest[:end]) {
			indented.WriteByte(' ')
		}
		indented.WriteString(rest[:end+size])
		rest = rest[end+size:]
	}
	return indented.String()
}

// isBreak reports whether a line ends here, for whoever may read the text (Unicode, section 5.8).
func isBreak(r rune) bool {
	switch r {
	case '\n', '\r', '\v', '\f', '\u0085', '\u2028', '\u2029':
		return true
	}
	return false
}

// isHeading reports whether a line reads as one of the headings to a person or a model, who see
// neither case nor how wide a blank is, nor some characters at all.
func isHeading(line string) bool {
	const longest = len("## " + assistant + " :##")
	seen := ""
	for _, r := range line {
		switch {
		case isInvisible(r):
			continue
		case unicode.IsSpace(r) && strings.HasSuffix(seen, " "):
			continue
		case unicode.IsSpace(r):
			r = ' '
		}
		// Most lines end here at their first character, however long they are.
		if seen += string(unicode.ToLower(r)); seen[0] != '#' || len(seen) > longest {
			return false
		}
	}
	role, ok := strings.CutPrefix(seen, "##")
	role = strings.TrimRight(strings.TrimLeft(role, " "), " :#")
	return ok && (role == user || role == assistant)
}

func isInvisible(r rune) bool {
	return r > unicode.MaxASCII &&
		unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
