package flat

import (
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	user      = "user"
	assistant = "assistant"
	// maxNote bounds the line that replaces content that is not text, in bytes.
	maxNote = 400
)

// Result returns the result of a get with all its messages as one user message. The result must be
// valid. A result without messages, which requires input, is returned unchanged.
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

// Block returns a content block with a text.
func Block(text string) jsontext.Value {
	return wire.Object{}.With("type", wire.Quote("text")).With("text", wire.Quote(text)).JSON()
}

// Text joins the messages of a result. A line replaces content that is not text. If attach is true,
// Text also returns images, audio, resources and resource links as content blocks, in order.
func Text(messages jsontext.Value, attach bool) (text string, attached []jsontext.Value) {
	var joined strings.Builder
	list, _ := wire.ParseArray(messages) // no error: the result is valid
	last := ""
	if len(list) == 1 {
		last = user // a single user message gets no heading
	}
	for _, value := range list {
		message := wire.Members(value)
		role, content := user, []jsontext.Value{message.Get("content")}
		if value, _ := message.Text("role"); value == assistant {
			role = assistant
		}
		if content[0].Kind() == '[' { // a sampling message may have an array
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

// read returns the text of a content block, or a line in place of other content. other is true if
// the block must be attached.
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

// heading matches a line that could pass for the heading of a message.
var heading = regexp.MustCompile(`(?im)^##[ \t]*(?:user|assistant)[ \t:#]*\r?$`)

// indent puts a space before each line that could pass for a heading.
func indent(text string) string { return heading.ReplaceAllString(text, " $0") }
