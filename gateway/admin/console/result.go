package console

import (
	"encoding/base64"
	"html/template"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxMessages bounds the messages of a result that are shown.
	maxMessages = 200
	// maxData bounds the images and sounds of a result that are shown, together, in bytes of
	// base64.
	maxData = 8 << 20
)

// result is what a get returned, for a person to look at.
type result struct {
	Description string
	Messages    []message
	// More is how many messages there are beside those that are shown.
	More int
	JSON string
}

// message is one message of a prompt. What is set says what it is.
type message struct {
	Role, Kind string
	Text       string
	// Image and Audio are data URLs, of kinds that browsers show and that run nothing.
	Image, Audio template.URL
	// Note is about what cannot be shown.
	Note string
	// URI is that of a resource, which is not opened.
	URI string
}

// readResult reads the result of prompts/get.
func readResult(raw jsontext.Value) result {
	object := wire.Members(raw)
	var r result
	r.Description, _ = object.Text("description")
	// there is one, or the get would have failed
	messages, _ := wire.ParseArray(object.Get("messages"))
	r.More = max(0, len(messages)-maxMessages)
	left := maxData
	for _, m := range messages[:len(messages)-r.More] {
		shown := readMessage(wire.Members(m), left)
		left -= len(shown.Image) + len(shown.Audio)
		r.Messages = append(r.Messages, shown)
	}
	r.JSON = wire.Indented(raw)
	return r
}

// readMessage reads a message, with an image or a sound of at most so many bytes.
func readMessage(object wire.Object, left int) message {
	content := object.Object("content")
	var m message
	m.Role, _ = object.Text("role")
	m.Kind, _ = content.Text("type")
	kind, _ := content.Text("mimeType")
	data, _ := content.Text("data")
	switch m.Kind {
	case "text":
		m.Text, _ = content.Text("text")
	case "image":
		if m.Image = dataURL(kind, data, shownImages, left); m.Image == "" {
			m.Note = "An image of the type " + kind + ", " + count(decodedLen(data), "byte") +
				", which is not shown."
		}
	case "audio":
		if m.Audio = dataURL(kind, data, playedSounds, left); m.Audio == "" {
			m.Note = "A sound of the type " + kind + ", " + count(decodedLen(data), "byte") +
				", which is not played."
		}
	case "resource":
		m.readResource(content.Object("resource"), left)
	case "resource_link":
		m.URI, _ = content.Text("uri")
		name, _ := content.Text("name")
		description, _ := content.Text("description")
		m.Text = strings.TrimSpace(name + "\n" + description)
	default:
		m.Note = "A message of a kind that is not known: " + m.Kind + "."
	}
	return m
}

// readResource reads an embedded resource.
func (m *message) readResource(resource wire.Object, left int) {
	m.URI, _ = resource.Text("uri")
	kind, _ := resource.Text("mimeType")
	blob, isBlob := resource.Text("blob")
	if !isBlob {
		m.Text, _ = resource.Text("text")
		return
	}
	if m.Image = dataURL(kind, blob, shownImages, left); m.Image == "" {
		m.Note = "A resource of the type " + kind + ", " + count(decodedLen(blob), "byte") +
			", which is not shown."
	}
}

// shownImages and playedSounds are types that browsers show and that cannot hold scripts.
var (
	shownImages  = []string{"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"}                                                       //nolint:gochecknoglobals // a constant list
	playedSounds = []string{"audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3", "audio/ogg", "audio/webm", "audio/mp4", "audio/aac", "audio/flac"} //nolint:gochecknoglobals // a constant list
)

// dataURL returns the URL that holds the data; empty unless the type is one of those given and the
// data is base64 of at most so many bytes.
func dataURL(kind, data string, of []string, most int) template.URL {
	if !slices.Contains(of, kind) || len(data) > most {
		return ""
	}
	if _, err := base64.StdEncoding.DecodeString(data); err != nil || data == "" {
		return ""
	}
	return template.URL("data:" + kind + ";base64," + data) //nolint:gosec // the type is one of a list, and the data is base64
}

// decodedLen returns how many bytes base64 stands for.
func decodedLen(data string) int {
	return base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(data, "=")))
}
