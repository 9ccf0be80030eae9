package catalog

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// The optional members that the protocol's schemas define. The members of an argument or icon that
// they do not define are the server's own, and may be null.
var (
	optionalMembers         = []string{"title", "description", "arguments", "icons", "_meta"} //nolint:gochecknoglobals // a constant list
	optionalArgumentMembers = []string{"title", "description", "required"}                    //nolint:gochecknoglobals // a constant list
	optionalIconMembers     = []string{"mimeType", "sizes", "theme"}                          //nolint:gochecknoglobals // a constant list
)

// dropNulls returns a definition without the optional members that are null, and their places.
func dropNulls(definition wire.Object) (kept wire.Object, places []string) {
	kept, places = dropNullMembers(definition, optionalMembers, "")
	for _, list := range []struct {
		member   string
		optional []string
	}{{"arguments", optionalArgumentMembers}, {"icons", optionalIconMembers}} {
		elements, dropped := dropNullsOfEach(kept.Get(list.member), list.optional, list.member)
		if len(dropped) > 0 {
			kept, places = kept.With(list.member, elements), append(places, dropped...)
		}
	}
	return kept, places
}

// dropNullsOfEach is dropNullMembers for each object in an array. Anything else stays as it is.
func dropNullsOfEach(array jsontext.Value, optional []string, name string) (kept jsontext.Value, places []string) {
	// Parsing every list of arguments twice would show in the time that a large catalog takes.
	if !bytes.Contains(array, []byte("null")) {
		return array, nil
	}
	elements, err := wire.ParseArray(array)
	if err != nil {
		return array, nil
	}
	for i := range elements {
		object, dropped := dropNullMembers(wire.Members(elements[i]), optional, fmt.Sprintf("%s[%d].", name, i))
		if len(dropped) > 0 {
			elements[i], places = object.JSON(), append(places, dropped...)
		}
	}
	return wire.Array(elements), places
}

func dropNullMembers(object wire.Object, optional []string, prefix string) (kept wire.Object, places []string) {
	for _, member := range object {
		if member.Value.Kind() == 'n' && slices.Contains(optional, member.Name) {
			places = append(places, prefix+member.Name)
		}
	}
	if places == nil {
		return object, nil
	}
	return object.Without(func(name string) bool {
		return slices.Contains(optional, name) && object.Get(name).Kind() == 'n'
	}), places
}
