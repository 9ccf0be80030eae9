package client

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Declared is what a server declared about itself when its session began.
type Declared struct {
	// JSON is the capabilities object, as it was sent.
	JSON jsontext.Value

	prompts, listChanged, completions, logging bool
}

// declaredBy returns what a capabilities object declares in a revision.
func declaredBy(capabilities wire.Object, revision string) Declared {
	return Declared{
		JSON:        capabilities.JSON(),
		prompts:     capabilities.Get("prompts") != nil,
		listChanged: string(capabilities.Object("prompts").Get("listChanged")) == "true",
		// Revision 2024-11-05 had no way to declare completions.
		completions: capabilities.Get("completions") != nil || revision == wire.Rev20241105,
		logging:     capabilities.Get("logging") != nil,
	}
}

// same reports whether two declarations are the same as far as it matters to prompts.
func (d Declared) same(other Declared) bool {
	return d.prompts == other.prompts && d.listChanged == other.listChanged &&
		d.completions == other.completions && d.logging == other.logging
}

// Prompts reports whether the server has prompts.
func (d Declared) Prompts() bool { return d.prompts }

// Completes reports whether the server completes arguments.
func (d Declared) Completes() bool { return d.completions }

// Notifies reports whether the server says when its list of prompts changes.
func (d Declared) Notifies() bool { return d.prompts && d.listChanged }

// Promptless explains that the server has no prompts, or returns nil if it has.
func (d Declared) Promptless() *Cause {
	if d.prompts {
		return nil
	}
	var declared []string
	if object, err := wire.ParseObject(d.JSON); err == nil {
		for _, member := range object {
			declared = append(declared, printable(member.Name))
		}
	}
	what := "it declares " + strings.Join(declared, ", ")
	if len(declared) == 0 {
		what = "it declares nothing"
	}
	c := newCause(NoPromptsOffered, shortened(what))
	return &c
}
