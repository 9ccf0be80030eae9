package wire

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Capabilities is a set of client capabilities. A capability lets a server send one kind of request to the client while it works on one of
// the client's requests.
type Capabilities uint8

// The client capabilities and their parts. A part is declared only together with its capability.
// Session tokens store these bits, so the values must not change.
const (
	Elicitation Capabilities = 1 << iota
	Sampling
	Roots
	ElicitationForm
	ElicitationURL
	SamplingContext
	SamplingTools
)

// clientCapabilities lists the spelling and the first revision of each capability. A capability
// precedes its parts.
var clientCapabilities = []struct { //nolint:gochecknoglobals // a constant table
	capability Capabilities
	name, part string
	since      string // the first revision with the capability
}{
	{Elicitation, "elicitation", "", Rev20250618},
	{ElicitationForm, "elicitation", "form", Rev20251125},
	{ElicitationURL, "elicitation", "url", Rev20251125},
	{Sampling, "sampling", "", Rev20241105},
	{SamplingContext, "sampling", "context", Rev20251125},
	{SamplingTools, "sampling", "tools", Rev20251125},
	{Roots, "roots", "", Rev20241105},
}

// ReadCapabilities reads a client's capabilities object. It ignores other members and sub-capabilities such as
// roots.listChanged, which permit no server requests.
func ReadCapabilities(declared Object) (set Capabilities) {
	for _, row := range clientCapabilities {
		value := declared.Get(row.name)
		if row.part != "" {
			value = declared.Object(row.name).Get(row.part)
		}
		// In the schemas, only an object declares a capability, and an empty one suffices; null and true do not.
		if value.Kind() == '{' {
			set |= row.capability
		}
	}
	return set
}

// Has reports whether the set contains all wanted capabilities. Elicitation without parts includes
// forms (2025-11-25, Elicitation, "Capabilities").
func (c Capabilities) Has(wanted Capabilities) bool {
	if c&Elicitation != 0 && c&ElicitationURL == 0 {
		c |= ElicitationForm
	}
	return c&wanted == wanted
}

// In returns the capabilities of the set that exist in a revision. Before 2025-11-25, elicitation
// meant forms, so a client that supports only URLs has no elicitation in those revisions.
func (c Capabilities) In(revision string) (existing Capabilities) {
	if revision < Rev20251125 && !c.Has(ElicitationForm) {
		c &^= Elicitation
	}
	for _, row := range clientCapabilities {
		if revision >= row.since {
			existing |= c & row.capability
		}
	}
	return existing
}

// Object returns the set as a client's capabilities object. Equal sets give equal bytes.
func (c Capabilities) Object() Object {
	object := Object{}
	for _, row := range clientCapabilities {
		switch {
		case c&row.capability == 0:
		case row.part == "":
			object = object.With(row.name, jsontext.Value("{}"))
		default:
			object = object.With(row.name, object.Object(row.name).With(row.part, jsontext.Value("{}")).JSON())
		}
	}
	return object
}

// String returns the set's most specific names, such as "elicitation.url".
func (c Capabilities) String() string {
	var names []string
	for _, member := range c.Object() {
		parts := Members(member.Value)
		if len(parts) == 0 {
			names = append(names, member.Name)
		}
		for _, part := range parts {
			names = append(names, member.Name+"."+part.Name)
		}
	}
	return strings.Join(names, ", ")
}

// NeededCapability returns the capability that a server request requires, or 0 if the method is not
// a server request.
func NeededCapability(method string, params Object) Capabilities {
	switch method {
	case Elicit:
		// A request without a mode asks for a form: before 2025-11-25 there was no other mode.
		if mode, _ := params.Text("mode"); mode == "url" {
			return Elicitation | ElicitationURL
		}
		return Elicitation | ElicitationForm
	case CreateMessage:
		// Do not require SamplingContext: a client may ignore includeContext, so nothing fails.
		if params.Get("tools") != nil || params.Get("toolChoice") != nil {
			return Sampling | SamplingTools
		}
		return Sampling
	case RootsList:
		return Roots
	}
	return 0
}
