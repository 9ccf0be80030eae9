package client

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// optionalInResults are the members of results that may be absent and must not be null. Some serializers
// write a member without a value as null.
var optionalInResults = []string{ //nolint:gochecknoglobals // a constant list
	"_meta", "annotations", "audience", "description", "hasMore", "icons", "lastModified", "mimeType", "priority", "size", "title", "total",
}

// withoutNulls returns the result of a get or a completion without the optional members that are null.
func withoutNulls(method string, result jsontext.Value) jsontext.Value {
	if method != wire.PromptsGet && method != wire.Complete || !bytes.Contains(result, []byte("null")) {
		return result
	}
	kept := dropNulls(result, "messages", "content", "annotations", "resource", "completion")
	if completion := wire.Members(kept).Object("completion"); completion.Get("values").Kind() == 'n' {
		kept = wire.Members(kept).With("completion", completion.With("values", jsontext.Value("[]")).JSON()).JSON()
	}
	return kept
}

// dropNulls drops the null members of an object, of the objects in an array, and of what the named members
// contain. What has none keeps its bytes, and anything else becomes shorter.
func dropNulls(value jsontext.Value, within ...string) jsontext.Value {
	switch elements, err := wire.ParseArray(value); {
	case err == nil:
		changed := false
		for i, element := range elements {
			elements[i] = dropNulls(element, within...)
			changed = changed || len(elements[i]) != len(element)
		}
		if changed {
			return wire.Array(elements)
		}
	case value.Kind() == '{':
		object := wire.Members(value)
		kept := object.Without(func(name string) bool {
			return slices.Contains(optionalInResults, name) && object.Get(name).Kind() == 'n'
		})
		changed := len(kept) != len(object)
		for i, member := range kept {
			if slices.Contains(within, member.Name) {
				kept[i].Value = dropNulls(member.Value, within...)
				changed = changed || len(kept[i].Value) != len(member.Value)
			}
		}
		if changed {
			return kept.JSON()
		}
	}
	return value
}
