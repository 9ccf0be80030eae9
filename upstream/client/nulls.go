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
	kept := dropNulls(result, "messages", "content", "annotations", "resource", "completion")
	if completion := wire.Members(kept).Object("completion"); completion.Get("values").Kind() == 'n' {
		kept = wire.Members(kept).With("completion", completion.With("values", jsontext.Value("[]")).JSON()).JSON()
	}
	return kept
}

// dropNulls removes the optional null members of an object, of the objects in an array, and of the
// named members. A value without such members keeps its bytes; any other becomes shorter.
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
		kept := object.WithoutNulls(optionalInResults...)
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
