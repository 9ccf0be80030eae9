package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/schema"
	"github.com/promptweir/promptweir/upstream/wire"
)

// ArgumentOverrides are the arguments that the gateway adds to a get. It always adds the fixed
// arguments, but adds a default only if the client does not send the argument. A nil
// *ArgumentOverrides adds nothing.
type ArgumentOverrides struct{ Fixed, Defaults []config.ArgumentOverride }

// Empty reports whether there are no overrides.
func (o *ArgumentOverrides) Empty() bool { return o == nil || len(o.Fixed)+len(o.Defaults) == 0 }

// Fixes reports whether an argument is fixed. Clients may not send a fixed argument.
func (o *ArgumentOverrides) Fixes(argument string) bool {
	return o != nil && contains(o.Fixed, argument)
}

// Equal reports whether both overrides add the same values.
func (o *ArgumentOverrides) Equal(other *ArgumentOverrides) bool {
	if o.Empty() || other.Empty() {
		return o.Empty() && other.Empty()
	}
	equal := func(a, b config.ArgumentOverride) bool { return a.Name == b.Name && bytes.Equal(a.Value, b.Value) }
	return slices.EqualFunc(o.Fixed, other.Fixed, equal) && slices.EqualFunc(o.Defaults, other.Defaults, equal)
}

// AddTo returns a client's arguments with the fixed arguments and defaults added.
func (o *ArgumentOverrides) AddTo(arguments wire.Object) wire.Object {
	if o == nil {
		return arguments
	}
	for _, fixed := range o.Fixed {
		arguments = arguments.With(fixed.Name, fixed.Value)
	}
	for _, byDefault := range o.Defaults {
		if arguments.Get(byDefault.Name) == nil {
			arguments = arguments.With(byDefault.Name, byDefault.Value)
		}
	}
	return arguments
}

func contains(values []config.ArgumentOverride, name string) bool {
	return slices.ContainsFunc(values, func(v config.ArgumentOverride) bool { return v.Name == name })
}

// Override returns the prompt for clients. Fixed arguments disappear from the definition, and
// arguments with a default become optional. The error means that the override does not fit the
// prompt: for example, the definition does not declare an argument, or a value violates its schema.
// If ctx has ended, the error has no meaning.
func (p *Prompt) Override(ctx context.Context, o *config.Override) (Prompt, error) {
	if p.Skill != nil {
		return Prompt{}, errors.New("a skill cannot be changed: it has digests of its files")
	}
	object, err := wire.ParseObject(p.Definition)
	if err != nil {
		return Prompt{}, err
	}
	if o.Title != nil {
		object = object.With("title", wire.Quote(*o.Title))
	}
	if o.Description != nil {
		object = object.With("description", wire.Quote(*o.Description))
	}
	// Check the overrides against the upstream's own arguments, because fixed arguments are removed
	// from the definition below.
	overrides, err := p.fit(ctx, ArgumentOverrides{o.Fixed, o.Defaults})
	if err != nil {
		return Prompt{}, err
	}
	if overrides != nil {
		arguments, err := overrides.declare(object.Get("arguments"))
		if err != nil {
			return Prompt{}, err
		}
		object = object.With("arguments", arguments)
	}
	// Parse the changed definition, because the hash and the arguments are those that clients see.
	changed, err := p.With(object.JSON())
	changed.Exposed, changed.Overrides = o.Name, overrides
	return changed, err
}

// With returns the prompt with another definition.
func (p *Prompt) With(definition jsontext.Value) (Prompt, error) {
	changed, err := ParseDefinition(definition, p.Skill != nil)
	changed.Exposed, changed.Overrides = p.Exposed, p.Overrides
	return changed, err
}

// fit returns the overrides with values that fit the declared arguments, or nil if there are no
// overrides.
func (p *Prompt) fit(ctx context.Context, wanted ArgumentOverrides) (*ArgumentOverrides, error) {
	if wanted.Empty() {
		return nil, nil
	}
	fixed, err := p.fitValues(ctx, wanted.Fixed)
	if err != nil {
		return nil, err
	}
	defaults, err := p.fitValues(ctx, wanted.Defaults)
	return &ArgumentOverrides{Fixed: fixed, Defaults: defaults}, err
}

// fitValues checks values against the schemas of their arguments. It converts the values of
// arguments without a schema to strings, which is their only type in the protocol.
func (p *Prompt) fitValues(ctx context.Context, values []config.ArgumentOverride) (fitting []config.ArgumentOverride, err error) {
	for _, v := range values {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		at := slices.IndexFunc(p.Arguments, func(a Argument) bool { return a.Name == v.Name })
		switch kind := v.Value.Kind(); {
		case at < 0:
			return nil, fmt.Errorf("the prompt has no argument %q", clip(v.Name))
		case p.Arguments[at].Schema != nil:
			if err := checkValue(ctx, &p.Arguments[at], v.Value); err != nil {
				return nil, err
			}
		case kind == '"':
		case kind == '{' || kind == '[':
			return nil, fmt.Errorf("argument %q takes a string, not %s", clip(v.Name), noun(kind))
		default:
			v.Value = wire.Quote(string(v.Value))
		}
		fitting = append(fitting, v)
	}
	return fitting, nil
}

// checkValue returns an error for a value that violates its argument's schema. If the schema does
// not compile, or the check takes too long, the server decides, as it does about values of clients.
func checkValue(ctx context.Context, argument *Argument, value jsontext.Value) error {
	compiled, err := schema.Compile(*argument.Schema)
	if err != nil {
		return nil //nolint:nilerr // the server decides
	}
	if invalid, ok := errors.AsType[*schema.Invalid](compiled.Check(ctx, value)); ok {
		return fmt.Errorf("argument %q breaks its schema: %w", clip(argument.Name), invalid)
	}
	return nil
}

// declare returns a definition's arguments for clients: without the fixed arguments, and with
// defaults as optional arguments.
func (o *ArgumentOverrides) declare(arguments jsontext.Value) (jsontext.Value, error) {
	declared, err := wire.ParseArray(arguments)
	if err != nil {
		return nil, err
	}
	var visible []jsontext.Value
	for _, argument := range declared {
		object, err := wire.ParseObject(argument)
		if err != nil {
			return nil, err
		}
		name, _ := object.Text("name")
		if o.Fixes(name) {
			continue
		}
		if contains(o.Defaults, name) && object.Get("required").Kind() == 't' {
			argument = object.With("required", jsontext.Value("false")).JSON()
		}
		visible = append(visible, argument)
	}
	return wire.Array(visible), nil
}
