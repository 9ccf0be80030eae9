package screen

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// contentType is the type of some content, and its JSON Pointer.
type contentType struct{ kind, at string }

// contentTypes returns the content types in the messages of a result, and in the server requests of
// a result that requires input. Content that cannot be read has the empty type, which no block
// allows, as has content that a client which ignores the case of member names would read
// differently.
func contentTypes(result jsontext.Value) []contentType {
	object, _ := wire.ParseObject(result)
	all := messageTypes(object, "")
	for _, request := range object.Object("inputRequests") {
		params := wire.Members(request.Value).Object("params")
		all = append(all, messageTypes(params, "/inputRequests/"+shown(request.Name)+"/params")...)
	}
	return all
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
