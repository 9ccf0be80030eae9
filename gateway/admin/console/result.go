package console

import (
	"encoding/base64"
	"html/template"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// result is what a get returned, for a person to look at.
type result struct {
	Description string
	Messages    []message
	JSON        string
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
	messages, _ := wire.ParseArray(object.Get("messages")) // there is one, or the get would have failed
	for _, m := range messages {
		r.Messages = append(r.Messages, readMessage(wire.Members(m)))
	}
	indented := raw.Clone()
	if indented.Indent(jsontext.WithIndent("  ")) == nil {
		r.JSON = string(indented)
	}
	return r
}

func readMessage(object wire.Object) message {
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
		if m.Image = dataURL(kind, data, shownImages); m.Image == "" {
			m.Note = "An image of the type " + kind + ", which is not shown."
		}
	case "audio":
		if m.Audio = dataURL(kind, data, playedSounds); m.Audio == "" {
			m.Note = "A sound of the type " + kind + ", which is not played."
		}
	case "resource":
		m.readResource(content.Object("resource"))
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
func (m *message) readResource(resource wire.Object) {
	m.URI, _ = resource.Text("uri")
	kind, _ := resource.Text("mimeType")
	blob, isBlob := resource.Text("blob")
	if !isBlob {
		m.Text, _ = resource.Text("text")
		return
	}
	if m.Image = dataURL(kind, blob, shownImages); m.Image == "" {
		decoded, _ := base64.StdEncoding.DecodeString(blob) // what can be decoded of it
		m.Note = "A resource of the type " + kind + ", " + count(len(decoded), "byte") + ", which is not shown."
	}
}

// shownImages and playedSounds are types that browsers show and that cannot hold scripts.
var (
	shownImages  = []string{"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"}                                                       //nolint:gochecknoglobals // a constant list
	playedSounds = []string{"audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3", "audio/ogg", "audio/webm", "audio/mp4", "audio/aac", "audio/flac"} //nolint:gochecknoglobals // a constant list
)

// dataURL returns the URL that holds the data; empty unless the type is one of those given and the data is base64.
func dataURL(kind, data string, of []string) template.URL {
	if !slices.Contains(of, kind) {
		return ""
	}
	if _, err := base64.StdEncoding.DecodeString(data); err != nil || data == "" {
		return ""
	}
	return template.URL("data:" + kind + ";base64," + data) //nolint:gosec // the type is one of a list, and the data is base64
}
