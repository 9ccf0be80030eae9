package catalog

import (
	"bytes"

	"github.com/promptweir/promptweir/upstream/wire"
)

// The optional members in the protocol's schemas. Other members of an argument or icon are the
// server's own and may be null.
var (
	optionalMembers         = []string{"title", "description", "arguments", "icons", "_meta"} //nolint:gochecknoglobals // a constant list
	optionalArgumentMembers = []string{"title", "description", "required"}                    //nolint:gochecknoglobals // a constant list
	optionalIconMembers     = []string{"mimeType", "sizes", "theme"}                          //nolint:gochecknoglobals // a constant list
)

// dropNulls returns a definition without the optional members that are null.
func dropNulls(definition wire.Object) wire.Object {
	definition = definition.WithoutNulls(optionalMembers...)
	for member, optional := range map[string][]string{"arguments": optionalArgumentMembers, "icons": optionalIconMembers} {
		array := definition.Get(member)
		// Without this check every list of arguments would be parsed twice, which takes noticeable
		// time for a large catalog.
		if !bytes.Contains(array, []byte("null")) {
			continue
		}
		elements, _ := wire.ParseArray(array)
		isChanged := false
		for i, element := range elements {
			object := wire.Members(element)
			if shorter := object.WithoutNulls(optional...); len(shorter) < len(object) {
				elements[i], isChanged = shorter.JSON(), true
			}
		}
		if isChanged {
			definition = definition.With(member, wire.Array(elements))
		}
	}
	return definition
}
