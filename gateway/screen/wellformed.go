package screen

import (
	"fmt"
	"mime"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// part is an object in a result to which the content and wellformed checks apply.
type part struct {
	kind   partKind
	object wire.Object // nil if the value is not an object
	at     string      // JSON Pointer
}

type partKind int

const (
	messagesPart partKind = iota // an object that may have a messages member
	messagePart
	contentPart // one content of a message
	filePart    // one file in the result of resources/read
)

// partsOf returns the parts of a result and of the server requests in it.
func partsOf(result jsontext.Value) (all []part) {
	object, _ := wire.ParseObject(result)
	all = appendMessages(nil, object, "/messages")
	files, _ := wire.ParseArray(object.Get("contents"))
	for i, file := range files {
		all = append(all, part{filePart, wire.Members(file), fmt.Sprintf("/contents/%d", i)})
	}
	for _, request := range object.Object("inputRequests") {
		params := wire.Members(request.Value).Object("params")
		all = appendMessages(all, params, "/inputRequests/"+maskedName(request.Name)+"/params/messages")
	}
	return all
}

func appendMessages(all []part, object wire.Object, at string) []part {
	all = append(all, part{messagesPart, object, at})
	messages, _ := wire.ParseArray(object.Get("messages"))
	for i, raw := range messages {
		message, at := wire.Members(raw), fmt.Sprintf("%s/%d", at, i)
		all = append(all, part{messagePart, message, at})
		content, at := message.Get("content"), at+"/content"
		if content.Kind() != '[' { // a prompt's message has one content; a sampling message may have a list
			all = append(all, part{contentPart, wire.Members(content), at})
			continue
		}
		contents, _ := wire.ParseArray(content)
		for j, content := range contents {
			all = append(all, part{contentPart, wire.Members(content), fmt.Sprintf("%s/%d", at, j)})
		}
	}
	return all
}

// contentType returns the content type of a part; ok is false if the part has no content. The type is
// empty, which no block allows, if the content is malformed or if a client that ignores the case of
// member names would read it differently.
func (p *part) contentType() (kind string, ok bool) {
	switch p.kind {
	case messagesPart: // the result of a completion has no messages
		kind := p.object.Get("messages").Kind()
		return "", p.object.Folded("messages") != "" || kind != 0 && kind != 'n' && kind != '['
	case messagePart:
		return "", p.object.Folded("content") != ""
	case contentPart:
		if p.object.Folded("type") == "" {
			kind, _ = p.object.Text("type")
		}
		return kind, true
	}
	// A file has the content type that a message with the same data would have.
	mime, _ := p.object.Text("mimeType")
	kind, _, _ = strings.Cut(strings.ToLower(mime), "/")
	switch {
	case p.object.Get("blob") == nil && p.object.Folded("text", "blob") == "":
		kind = "text"
	case kind != "image" && kind != "audio":
		kind = "resource"
	}
	return kind, true
}

// malformed returns the JSON Pointers of the invalid members of a part. It checks roles, base64, MIME
// types and URIs by the rules of MCP ("Data Types" of the prompts page, the same in all revisions).
// It accepts unknown types of content.
func (p *part) malformed() []string {
	f := form{object: p.object, at: p.at}
	switch p.kind {
	case messagesPart:
		kind := p.object.Get("messages").Kind()
		f.want(p.object.Folded("messages") == "" && (kind == 0 || kind == '['), "")
	case messagePart:
		role, _ := p.object.Text("role")
		f.want(role == "user" || role == "assistant", "/role")
		f.want(p.object.Folded("role", "content") == "", "")
	case contentPart:
		f.content()
	}
	return f.malformed
}

// form collects the JSON Pointers of an object's invalid members.
type form struct {
	object    wire.Object
	at        string
	malformed []string
}

// want adds the pointer of a member if right is false; member "" stands for the object.
func (f *form) want(right bool, member string) {
	if !right {
		f.malformed = append(f.malformed, f.at+member)
	}
}

// member checks that a member is a string that hasForm accepts.
func (f *form) member(name string, hasForm func(string) bool) {
	text, ok := f.object.Text(name)
	f.want(ok && hasForm(text), "/"+name)
}

func (f *form) content() {
	f.want(f.object != nil, "")
	f.want(f.object.Folded("type", "text", "data", "mimeType", "uri", "resource") == "", "")
	kind, ok := f.object.Text("type")
	f.want(ok, "/type")
	switch kind {
	case "text":
		f.member("text", isText)
	case "image", "audio":
		f.member("data", isBase64)
		f.member("mimeType", isMIMEType)
	case "resource":
		f.object, f.at = f.object.Object("resource"), f.at+"/resource"
		f.resource()
	case "resource_link":
		f.member("uri", isURI)
		if f.object.Get("mimeType") != nil { // optional for a link, but not for an embedded resource
			f.member("mimeType", isMIMEType)
		}
	}
}

// resource checks an embedded resource: it must have either text or a blob.
func (f *form) resource() {
	f.want(f.object.Folded("uri", "mimeType", "text", "blob") == "", "")
	f.member("uri", isURI)
	f.member("mimeType", isMIMEType)
	switch text, blob := f.object.Get("text"), f.object.Get("blob"); {
	case (text == nil) == (blob == nil):
		f.want(false, "")
	case text != nil:
		f.member("text", isText)
	default:
		f.member("blob", isBase64)
	}
}

func isText(string) bool { return true }

// isBase64 reports whether a text is base64 in the standard alphabet with padding (RFC 4648,
// section 4), on one line. It does not decode the text, which may have megabytes.
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

// isMIMEType reports whether a text is a MIME type with a subtype and, optionally, parameters.
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
