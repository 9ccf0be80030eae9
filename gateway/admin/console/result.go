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
	// maxMessages bounds the messages of a result that are shown.
	maxMessages = 200
	// maxData bounds the images and sounds of a result that are shown, together, in bytes of
	// base64.
	maxData = 8 << 20
)

// resultCard shows what a get returned, and returns how many messages that has.
func resultCard(raw jsontext.Value) (shown Node, messages int) {
	object := wire.Members(raw)
	description, _ := object.Text("description")
	// there is one, or the get would have failed
	all, _ := wire.ParseArray(object.Get("messages"))
	left := maxData
	return Div(Class("result"), If(description != "", quiet(bdi(description))),
		messageList(all, &left),
		Details(Summary(Text("As JSON")), Pre(TabIndex("0"), Role("group"), Aria("label", "JSON"),
			Code(Text(text(wire.Indented(raw))))))), len(all)
}

// messageCard shows a message. Left is how much images and sounds may still take.
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
	case "resource_link": // is not opened
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

// shownImages and playedSounds are types that browsers show and that cannot hold scripts.
const (
	shownImages  = "image/png image/jpeg image/gif image/webp image/avif"
	playedSounds = "audio/wav audio/x-wav audio/mpeg audio/mp3 audio/ogg audio/webm audio/mp4 " +
		"audio/aac audio/flac"
)

// dataURL returns the URL that holds the data; empty unless the type is one of those given and the
// data is base64 of at most the bytes that are left.
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

// decodedLen returns how many bytes base64 stands for.
func decodedLen(data string) int {
	return base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(data, "=")))
}

// failedCard shows why a get failed, and returns its message.
func failedCard(err error) (shown Node, message string) {
	message = err.Error()
	var code, reason Node
	if wireErr, ok := errors.AsType[*wire.Error](err); ok {
		message, code = wireErr.Message, Textf("Code %d", wireErr.Code)
		// A server's reason is its own.
		if name, ok := wire.Members(wireErr.Data).Text("reason"); ok && !wireErr.FromPeer() {
			reason = Group{Text(", reason "), Code(Text(line(name)))}
		}
	}
	return Div(Class("card bad"), H3(Text("It failed")), P(El("bdi", Text(text(message)))),
		quiet(code, reason)), message
}
