package client

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// optionalInResults are the members of results that may be absent but must not be null. Some
// serializers write a member without a value as null.
var optionalInResults = []string{ //nolint:gochecknoglobals // a constant list
	"_meta", "annotations", "audience", "description", "hasMore", "icons", "lastModified", "mimeType", "priority", "size", "title", "total",
}

// withoutNulls removes the optional members that are null from the result of a get or a completion.
func withoutNulls(result jsontext.Value) jsontext.Value {
	cleaned := dropNulls(result, "messages", "content", "annotations", "resource", "completion")
	if completion := wire.Members(cleaned).Object("completion"); completion.Get("values").Kind() == 'n' {
		cleaned = wire.Members(cleaned).With("completion", completion.With("values", jsontext.Value("[]")).JSON()).JSON()
	}
	return cleaned
}

// dropNulls removes the optional null members of an object, of the objects in an array, and of the
// named members. A value without such members keeps its bytes. Any other value becomes shorter.
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
		cleaned := object.WithoutNulls(optionalInResults...)
		changed := len(cleaned) != len(object)
		for i, member := range cleaned {
			if slices.Contains(within, member.Name) {
				cleaned[i].Value = dropNulls(member.Value, within...)
				changed = changed || len(cleaned[i].Value) != len(member.Value)
			}
		}
		if changed {
			return cleaned.JSON()
		}
	}
	return value
}
