package catalog

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Shape is what a configuration changes of a definition.
type Shape struct {
	// Name is the exposed one; empty where it stays.
	Name string
	// Title and Description are nil where they stay.
	Title, Description *string

	Supplied
}

// Supplied is arguments that the gateway sends: the fixed ones always, the defaults where the client does not.
type Supplied struct{ Fixed, Defaults []Supply }

// Supply is an argument and its value as JSON.
type Supply struct {
	Name  string
	Value jsontext.Value
}

func (s Supplied) same(other Supplied) bool {
	equal := func(a, b Supply) bool { return a.Name == b.Name && bytes.Equal(a.Value, b.Value) }
	return slices.EqualFunc(s.Fixed, other.Fixed, equal) && slices.EqualFunc(s.Defaults, other.Defaults, equal)
}

// Fixes reports whether an argument is not the client's to send.
func (s Supplied) Fixes(argument string) bool { return has(s.Fixed, argument) }

func has(supplies []Supply, name string) bool {
	return slices.ContainsFunc(supplies, func(s Supply) bool { return s.Name == name })
}

// Shaped returns the prompt as clients are to see it. Fixed arguments disappear from the definition, defaulted ones become
// optional; whatever else the definition says stays as it was sent. The error is of a shape that does not fit the prompt:
// one that supplies what the definition does not declare.
func (p *Prompt) Shaped(shape *Shape) (Prompt, error) {
	object, err := wire.ParseObject(p.Definition)
	if err != nil {
		return Prompt{}, err
	}
	if shape.Title != nil {
		object = object.With("title", wire.Quote(*shape.Title))
	}
	if shape.Description != nil {
		object = object.With("description", wire.Quote(*shape.Description))
	}
	supplied, err := p.fit(shape.Supplied)
	if err != nil {
		return Prompt{}, err
	}
	if len(supplied.Fixed)+len(supplied.Defaults) > 0 {
		arguments, err := supplied.arguments(object.Get("arguments"))
		if err != nil {
			return Prompt{}, err
		}
		object = object.With("arguments", arguments)
	}
	changed, err := p.With(object.JSON())
	changed.Exposed, changed.Supplied = shape.Name, supplied
	return changed, err
}

// With returns the prompt with another definition.
func (p *Prompt) With(definition jsontext.Value) (Prompt, error) {
	changed, err := ParsePrompt(definition)
	changed.Exposed, changed.Supplied = p.Exposed, p.Supplied
	return changed, err
}

// fit returns the values as the definition declares the arguments. One without a schema is a string, so that a number
// is written as one.
func (p *Prompt) fit(wanted Supplied) (fitting Supplied, err error) {
	fit := func(supplies []Supply) (list []Supply, err error) {
		for _, s := range supplies {
			at := slices.IndexFunc(p.Arguments, func(a Argument) bool { return a.Name == s.Name })
			switch kind := s.Value.Kind(); {
			case at < 0:
				return nil, fmt.Errorf("the prompt has no argument %q", clip(s.Name))
			case p.Arguments[at].Schema != nil || kind == '"':
			case kind == '{' || kind == '[':
				return nil, fmt.Errorf("argument %q takes a string, not %s", clip(s.Name), noun(kind))
			default:
				s.Value = wire.Quote(string(s.Value))
			}
			list = append(list, s)
		}
		return list, nil
	}
	if fitting.Fixed, err = fit(wanted.Fixed); err != nil {
		return Supplied{}, err
	}
	fitting.Defaults, err = fit(wanted.Defaults)
	return fitting, err
}

// arguments returns a definition's arguments without the fixed ones, and with none required that has a default.
func (s Supplied) arguments(raw jsontext.Value) (jsontext.Value, error) {
	declared, err := wire.ParseArray(raw)
	if err != nil {
		return nil, err
	}
	var kept []string
	for _, argument := range declared {
		object, err := wire.ParseObject(argument)
		if err != nil {
			return nil, err
		}
		name, _ := object.Text("name")
		if s.Fixes(name) {
			continue
		}
		if has(s.Defaults, name) && object.Get("required").Kind() == 't' {
			argument = object.With("required", jsontext.Value("false")).JSON()
		}
		kept = append(kept, string(argument))
	}
	return jsontext.Value("[" + strings.Join(kept, ",") + "]"), nil
}
