package console

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxMessages bounds the messages of a result on a page.
	maxMessages = 200
	// maxData bounds the total size of the images and sounds of a result on a page, in bytes of base64.
	maxData = 8 << 20
)

// resultCard returns a card with the result of a get, and the number of messages.
func resultCard(raw jsontext.Value) (card Node, messages int) {
	object := wire.Members(raw)
	description, _ := object.Text("description")
	all, _ := wire.ParseArray(object.Get("messages")) // no error: the gateway has checked the result
	left := maxData
	return Div(Class("result"), If(description != "", quiet(bdi(description))),
		messageList(all, &left),
		Details(Summary(Text("As JSON")), Pre(TabIndex("0"), Role("group"), Aria("label", "JSON"),
			Code(Text(text(wire.Indented(raw))))))), len(all)
}

// messageCard shows a message. left is the number of bytes of base64 that images and sounds may still
// have.
func messageCard(m wire.Object, left *int) Node {
	content := m.Object("content")
	role, _ := m.Text("role")
	kind, _ := content.Text("type")
	return Li(Class("card message"), H3(bdi(role), Text(" "), Span(Class("tag"), bdi(kind))),
		messageContent(kind, content, left))
}

func messageContent(kind string, content wire.Object, left *int) Node {
	member := func(name string) string {
		text, _ := content.Text(name)
		return text
	}
	switch kind {
	case "text":
		return textBox(member("text"))
	case "image":
		return image("An image", member("mimeType"), member("data"), left)
	case "audio":
		if sound := dataURL(member("mimeType"), member("data"), playedSounds, left); sound != "" {
			return Audio(Controls(), src(sound))
		}
		return unshown("A sound", member("mimeType"), member("data"), "played")
	case "resource":
		return resource(content.Object("resource"), left)
	case "resource_link": // show the link, but do not read the resource
		about := strings.TrimSpace(member("name") + "\n" + member("description"))
		return Group{address(member("uri")), textBox(about)}
	}
	return quiet(bdi("A message of an unknown kind: " + kind + "."))
}

// resource shows an embedded resource.
func resource(r wire.Object, left *int) Node {
	uri, _ := r.Text("uri")
	kind, _ := r.Text("mimeType")
	text, _ := r.Text("text")
	body := textBox(text)
	if blob, isBlob := r.Text("blob"); isBlob {
		body = image("A resource", kind, blob, left)
	}
	return Group{address(uri), body}
}

func address(uri string) Node { return If(uri != "", P(Class("place"), bdi(uri))) }

func textBox(text string) Node { return If(text != "", prose("said", "Text", text)) }

func image(what, kind, data string, left *int) Node {
	if image := dataURL(kind, data, shownImages, left); image != "" {
		return Img(src(image), Alt("an image"))
	}
	return unshown(what, kind, data, "shown")
}

func unshown(what, kind, data, done string) Node {
	return quiet(bdi(what + " of the type " + kind + ", " + count(base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(data, "="))), "byte") +
		", which is not " + done + "."))
}

// shownImages and playedSounds are the types that the console shows and plays. Browsers support them,
// and they cannot contain scripts.
const (
	shownImages  = "image/png image/jpeg image/gif image/webp image/avif"
	playedSounds = "audio/wav audio/x-wav audio/mpeg audio/mp3 audio/ogg audio/webm audio/mp4 audio/aac audio/flac"
)

// dataURL returns a data: URL, and subtracts the length of data from left. It returns "" if kind is
// not in types, or if data is empty, longer than left or not base64.
func dataURL(kind, data, types string, left *int) string {
	if !slices.Contains(strings.Fields(types), kind) || len(data) > *left {
		return ""
	}
	if _, err := base64.StdEncoding.DecodeString(data); err != nil || data == "" {
		return ""
	}
	*left -= len(data)
	return "data:" + kind + ";base64," + data
}

// failedCard returns a card with the error of a get, and the error's message.
func failedCard(err error) (card Node, message string) {
	message = err.Error()
	var code, reason Node
	if wireErr, ok := errors.AsType[*wire.Error](err); ok {
		message, code = wireErr.Message, Textf("Code %d", wireErr.Code)
		// Show only the gateway's reasons: a server's error may contain any text.
		if name, ok := wire.Members(wireErr.Data).Text("reason"); ok && !wireErr.FromPeer() {
			reason = Group{Text(", reason "), Code(Text(line(name)))}
		}
	}
	return Div(Class("card bad"), H3(Text("It failed")), P(El("bdi", Text(text(message)))),
		quiet(code, reason)), message
}
