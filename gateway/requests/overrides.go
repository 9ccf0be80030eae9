package requests

import (
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream/wire"
)

// withOverrides returns the params of a get with the entry's argument overrides. Without any, the
// params stay as they are.
func withOverrides(entry *catalog.Entry, params wire.Object) wire.Object {
	if entry.Overrides.Empty() {
		return params
	}
	return params.With("arguments", addOverrides(entry, params.Object("arguments")).JSON())
}

func addOverrides(entry *catalog.Entry, arguments wire.Object) wire.Object {
	for _, fixed := range entry.Overrides.Fixed {
		arguments = arguments.With(fixed.Name, fixed.Value)
	}
	for _, byDefault := range entry.Overrides.Defaults {
		if arguments.Get(byDefault.Name) == nil {
			arguments = arguments.With(byDefault.Name, byDefault.Value)
		}
	}
	return arguments
}

// checkFixed refuses arguments that the configuration fixes.
func checkFixed(entry *catalog.Entry, sent func(name string) bool) error {
	if entry.Overrides.Empty() {
		return nil
	}
	for _, fixed := range entry.Overrides.Fixed {
		if sent(fixed.Name) {
			return argumentIsFixed(fixed.Name)
		}
	}
	return nil
}

func argumentIsFixed(name string) error {
	return invalidArgument(name, argumentFixed, "the gateway's configuration fixes it", nil)
}

// completionParams returns the params of a completion for the upstream, or refuses to complete a
// fixed argument. If the client sends the arguments that it has so far, the overrides are added to
// them.
func completionParams(entry *catalog.Entry, params wire.Object) (wire.Object, error) {
	if argument, ok := params.Object("argument").Text("name"); ok && entry.Overrides.Fixes(argument) {
		return nil, argumentIsFixed(argument)
	}
	context := params.Object("context")
	if context.Get("arguments").Kind() != '{' || entry.Overrides.Empty() {
		return params, nil
	}
	known := context.Object("arguments")
	if err := checkFixed(entry, func(name string) bool { return known.Get(name) != nil }); err != nil {
		return nil, err
	}
	texts := known
	for _, o := range addOverrides(entry, known) {
		if o.Value.Kind() == '"' { // the context of a completion holds strings only
			texts = texts.With(o.Name, o.Value)
		}
	}
	return params.With("context", context.With("arguments", texts.JSON()).JSON()), nil
}
