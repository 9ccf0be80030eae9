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
	// maxMessages bounds the shown messages of a result.
	maxMessages = 200
	// maxData bounds all shown images and sounds of a result, in bytes of base64.
	maxData = 8 << 20
)

// resultCard shows the result of a get, and returns its number of messages.
func resultCard(raw jsontext.Value) (shown Node, messages int) {
	object := wire.Members(raw)
	description, _ := object.Text("description")
	// A get without messages would have failed.
	all, _ := wire.ParseArray(object.Get("messages"))
	left := maxData
	return Div(Class("result"), If(description != "", quiet(bdi(description))),
		messageList(all, &left),
		Details(Summary(Text("As JSON")), Pre(TabIndex("0"), Role("group"), Aria("label", "JSON"),
			Code(Text(text(wire.Indented(raw))))))), len(all)
}

// messageCard shows a message. left is the remaining budget for images and sounds.
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
		return said(member("text"))
	case "image":
		return image("An image", member("mimeType"), member("data"), left)
	case "audio":
		if sound := dataURL(member("mimeType"), member("data"), playedSounds, left); sound != "" {
			return Audio(Controls(), src(sound))
		}
		return unshown("A sound", member("mimeType"), member("data"), "played")
	case "resource":
		return resource(content.Object("resource"), left)
	case "resource_link": // the link is not followed
		about := strings.TrimSpace(member("name") + "\n" + member("description"))
		return Group{address(member("uri")), said(about)}
	}
	return quiet(bdi("A message of an unknown kind: " + kind + "."))
}

// resource shows an embedded resource.
func resource(r wire.Object, left *int) Node {
	uri, _ := r.Text("uri")
	kind, _ := r.Text("mimeType")
	text, _ := r.Text("text")
	shown := said(text)
	if blob, isBlob := r.Text("blob"); isBlob {
		shown = image("A resource", kind, blob, left)
	}
	return Group{address(uri), shown}
}

func address(uri string) Node { return If(uri != "", P(Class("place"), bdi(uri))) }

func said(text string) Node { return If(text != "", prose("said", "Text", text)) }

func image(what, kind, data string, left *int) Node {
	if image := dataURL(kind, data, shownImages, left); image != "" {
		return Img(src(image), Alt("an image"))
	}
	return unshown(what, kind, data, "shown")
}

func unshown(what, kind, data, done string) Node {
	return quiet(bdi(what + " of the type " + kind + ", " + count(decodedLen(data), "byte") +
		", which is not " + done + "."))
}

// shownImages and playedSounds are types that browsers show and that cannot contain scripts.
const (
	shownImages  = "image/png image/jpeg image/gif image/webp image/avif"
	playedSounds = "audio/wav audio/x-wav audio/mpeg audio/mp3 audio/ogg audio/webm audio/mp4 " +
		"audio/aac audio/flac"
)

// dataURL returns a data: URL, and subtracts the data's length from left. It returns "" if kind
// is not among the types in of, or if the data is empty, longer than left or not base64.
func dataURL(kind, data, of string, left *int) string {
	if !slices.Contains(strings.Fields(of), kind) || len(data) > *left {
		return ""
	}
	if _, err := base64.StdEncoding.DecodeString(data); err != nil || data == "" {
		return ""
	}
	*left -= len(data)
	return "data:" + kind + ";base64," + data
}

// decodedLen returns the number of bytes that base64 text encodes.
func decodedLen(data string) int {
	return base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(data, "=")))
}

// failedCard shows the error of a get, and returns its message.
func failedCard(err error) (shown Node, message string) {
	message = err.Error()
	var code, reason Node
	if wireErr, ok := errors.AsType[*wire.Error](err); ok {
		message, code = wireErr.Message, Textf("Code %d", wireErr.Code)
		// A reason in a server's error is the server's own, not the gateway's.
		if name, ok := wire.Members(wireErr.Data).Text("reason"); ok && !wireErr.FromPeer() {
			reason = Group{Text(", reason "), Code(Text(line(name)))}
		}
	}
	return Div(Class("card bad"), H3(Text("It failed")), P(El("bdi", Text(text(message)))),
		quiet(code, reason)), message
}
