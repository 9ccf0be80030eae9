package wire

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Capabilities is a set of client capabilities: those by which a server may send its client
// requests while it works on one of the client's.
type Capabilities uint8

// The client capabilities and their parts. A part is only ever declared together with its
// capability. Session tokens store these bits: their values must not change.
const (
	Elicitation Capabilities = 1 << iota
	Sampling
	Roots
	ElicitationForm
	ElicitationURL
	SamplingContext
	SamplingTools
)

// clientCapabilities is the only place that knows how capabilities are spelled and since when they
// exist. A capability stands before its parts.
var clientCapabilities = []struct { //nolint:gochecknoglobals // a constant table
	capability Capabilities
	name, part string
	since      string // the oldest revision that knows it
}{
	{Elicitation, "elicitation", "", Rev20250618},
	{ElicitationForm, "elicitation", "form", Rev20251125},
	{ElicitationURL, "elicitation", "url", Rev20251125},
	{Sampling, "sampling", "", Rev20241105},
	{SamplingContext, "sampling", "context", Rev20251125},
	{SamplingTools, "sampling", "tools", Rev20251125},
	{Roots, "roots", "", Rev20241105},
}

// ReadCapabilities returns the capabilities that a client declares in a capabilities object. Others
// are left out, and so are sub-capabilities such as roots.listChanged, which are no reason for a
// server to send a request.
func ReadCapabilities(declared Object) (set Capabilities) {
	for _, row := range clientCapabilities {
		value := declared.Get(row.name)
		if row.part != "" {
			value = declared.Object(row.name).Get(row.part)
		}
		// Only an object declares a capability, even an empty one: null, or true, is none by the
		// schemas.
		if value.Kind() == '{' {
			set |= row.capability
		}
	}
	return set
}

// Has reports whether the set contains all of the wanted capabilities. An elicitation capability
// without any part stands for forms (2025-11-25, Elicitation, "Capabilities").
func (c Capabilities) Has(wanted Capabilities) bool {
	if c&Elicitation != 0 && c&ElicitationURL == 0 {
		c |= ElicitationForm
	}
	return c&wanted == wanted
}

// In returns what is left of the set in a revision. Before 2025-11-25 elicitation meant forms, so a
// client that knows only URLs has none there.
func (c Capabilities) In(revision string) (known Capabilities) {
	if revision < Rev20251125 && !c.Has(ElicitationForm) {
		c &^= Elicitation
	}
	for _, row := range clientCapabilities {
		if revision >= row.since {
			known |= c & row.capability
		}
	}
	return known
}

// Object returns the set as the object in which a client declares it. Equal sets give equal bytes.
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

// NeededCapability returns what a client must have declared to be sent a server request, or 0 for a
// method of no server request.
func NeededCapability(method string, params Object) Capabilities {
	switch method {
	case Elicit:
		// A request without a mode asks for a form, as all did before 2025-11-25.
		if mode, _ := params.Text("mode"); mode == "url" {
			return Elicitation | ElicitationURL
		}
		return Elicitation | ElicitationForm
	case CreateMessage:
		// Not SamplingContext: a client may ignore includeContext, so that nothing fails without
		// it.
		if params.Get("tools") != nil || params.Get("toolChoice") != nil {
			return Sampling | SamplingTools
		}
		return Sampling
	case RootsList:
		return Roots
	}
	return 0
}
