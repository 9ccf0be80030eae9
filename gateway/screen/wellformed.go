package screen

import (
	"fmt"
	"mime"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// malformed returns the JSON Pointers in a result, or in the server requests of one that requires
// input, where a message lacks what MCP demands of it ("Data Types" of the prompts page, the same
// in all revisions): a role, base64, a MIME type, a URI. Types of content that nobody has heard of
// yet pass.
func malformed(result jsontext.Value) []string {
	object, _ := wire.ParseObject(result)
	var f form
	f.messages(object, "")
	for _, request := range object.Object("inputRequests") {
		f.messages(wire.Members(request.Value).Object("params"), "/inputRequests/"+shown(request.Name)+"/params")
	}
	return f.malformed
}

// form collects JSON Pointers.
type form struct{ malformed []string }

// want notes a pointer unless what is there is right.
func (f *form) want(right bool, at string) {
	if !right {
		f.malformed = append(f.malformed, at)
	}
}

// messages checks the messages of an object, if it has any: a completion has none.
func (f *form) messages(object wire.Object, at string) {
	at += "/messages"
	f.want(object.Folded("messages") == "", at)
	value := object.Get("messages")
	if value == nil {
		return
	}
	messages, err := wire.ParseArray(value)
	f.want(err == nil, at)
	for i, raw := range messages {
		f.message(wire.Members(raw), fmt.Sprintf("%s/%d", at, i))
	}
}

func (f *form) message(message wire.Object, at string) {
	role, _ := message.Text("role")
	f.want(role == "user" || role == "assistant", at+"/role")
	f.want(message.Folded("role", "content") == "", at)
	content, at := message.Get("content"), at+"/content"
	if content.Kind() != '[' { // one content, as in prompts; sampling has lists as well
		f.content(content, at)
		return
	}
	parts, _ := wire.ParseArray(content)
	for i, part := range parts {
		f.content(part, fmt.Sprintf("%s/%d", at, i))
	}
}

func (f *form) content(raw jsontext.Value, at string) {
	f.want(raw.Kind() == '{', at)
	content := wire.Members(raw)
	f.want(content.Folded("type", "text", "data", "mimeType", "uri", "resource") == "", at)
	kind, ok := content.Text("type")
	f.want(ok, at+"/type")
	switch kind {
	case "text":
		f.member(content, "text", at, isText)
	case "image", "audio":
		f.member(content, "data", at, isBase64)
		f.member(content, "mimeType", at, isMIMEType)
	case "resource":
		f.resource(content.Object("resource"), at+"/resource")
	case "resource_link":
		f.member(content, "uri", at, isURI)
		if content.Get("mimeType") != nil { // unlike that of an embedded resource, it may be absent
			f.member(content, "mimeType", at, isMIMEType)
		}
	}
}

// resource checks an embedded resource, which has either text or data.
func (f *form) resource(resource wire.Object, at string) {
	f.want(resource.Folded("uri", "mimeType", "text", "blob") == "", at)
	f.member(resource, "uri", at, isURI)
	f.member(resource, "mimeType", at, isMIMEType)
	switch text, blob := resource.Get("text"), resource.Get("blob"); {
	case (text == nil) == (blob == nil):
		f.want(false, at)
	case text != nil:
		f.member(resource, "text", at, isText)
	default:
		f.member(resource, "blob", at, isBase64)
	}
}

// member wants a member to be a string of some form.
func (f *form) member(object wire.Object, name, at string, hasForm func(string) bool) {
	text, ok := object.Text(name)
	f.want(ok && hasForm(text), at+"/"+name)
}

func isText(string) bool { return true }

// isBase64 reports whether a text is in the standard alphabet with its padding (RFC 4648, section
// 4), on one line. It does not decode the text, which may be megabytes long.
func isBase64(text string) bool {
	digits := strings.TrimRight(text, "=")
	if len(text)%4 != 0 || len(text)-len(digits) > 2 {
		return false
	}
	for i := range len(digits) {
		switch c := digits[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '+', c == '/':
		default:
			return false
		}
	}
	return true
}

// isMIMEType reports whether a text is a type with a subtype and, perhaps, parameters.
func isMIMEType(text string) bool {
	kind, _, err := mime.ParseMediaType(text)
	return err == nil && strings.Contains(kind, "/")
}

// isURI reports whether a text is a URI with a scheme (RFC 3986), in ASCII.
func isURI(text string) bool {
	if strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune("\"<>\\^`{|}", r)
	}) {
		return false
	}
	parsed, err := url.Parse(text)
	return err == nil && parsed.IsAbs() && len(text) > len(parsed.Scheme)+len(":")
}

// contentType is the type of some content, and its JSON Pointer.
type contentType struct{ kind, at string }

// contentTypes returns the content types in the messages of a result, in the contents of a resource,
// and in the server requests of a result that requires input. Content that cannot be read has the
// empty type, which no block allows, as has content that a client which ignores the case of member
// names would read differently.
func contentTypes(result jsontext.Value) []contentType {
	object, _ := wire.ParseObject(result)
	all := messageTypes(object, "")
	contents, _ := wire.ParseArray(object.Get("contents"))
	for i, content := range contents {
		all = append(all, contentType{resourceType(wire.Members(content)), fmt.Sprintf("/contents/%d", i)})
	}
	for _, request := range object.Object("inputRequests") {
		params := wire.Members(request.Value).Object("params")
		all = append(all, messageTypes(params, "/inputRequests/"+shown(request.Name)+"/params")...)
	}
	return all
}

// resourceType returns the type of message that would have what is in a resource.
func resourceType(content wire.Object) string {
	mime, _ := content.Text("mimeType")
	kind, _, _ := strings.Cut(strings.ToLower(mime), "/")
	switch {
	case content.Get("blob") == nil && content.Folded("text", "blob") == "":
		return "text"
	case kind == "image" || kind == "audio":
		return kind
	}
	return "resource"
}

// messageTypes returns the content types of an object that has messages. At is its JSON Pointer.
func messageTypes(object wire.Object, at string) (all []contentType) {
	at += "/messages"
	value := object.Get("messages")
	messages, err := wire.ParseArray(value)
	// No messages at all are fine: a completion has none.
	if none := value == nil || value.Kind() == 'n'; err != nil && !none || object.Folded("messages") != "" {
		all = append(all, contentType{at: at})
	}
	for i, raw := range messages {
		message, _ := wire.ParseObject(raw)
		if message.Folded("content") != "" {
			all = append(all, contentType{at: fmt.Sprintf("%s/%d", at, i)})
		}
		content, at := message.Get("content"), fmt.Sprintf("%s/%d/content", at, i)
		if content.Kind() != '[' { // one content, as in prompts; sampling has lists as well
			all = append(all, contentType{kindOf(content), at})
			continue
		}
		parts, _ := wire.ParseArray(content)
		for j, part := range parts {
			all = append(all, contentType{kindOf(part), fmt.Sprintf("%s/%d", at, j)})
		}
	}
	return all
}

// kindOf returns the type of one content, empty if it has none that all readers agree on.
func kindOf(content jsontext.Value) string {
	object, _ := wire.ParseObject(content)
	if object.Folded("type") != "" {
		return ""
	}
	kind, _ := object.Text("type")
	return kind
}
