package gateway

import (
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream/wire"
)

// argumentFixed is what is wrong with an argument that the configuration fixes, in data.reason.
const argumentFixed = "fixed"

// checkFixed refuses arguments that are not the client's to send.
func checkFixed(entry *catalog.Entry, arguments wire.Object) error {
	for _, fixed := range entry.Supplied.Fixed {
		if arguments.Get(fixed.Name) != nil {
			return invalidArgument(fixed.Name, argumentFixed, "it cannot be chosen", nil)
		}
	}
	return nil
}

// supply returns the params of a get with the arguments that the configuration supplies. Without any, the params stay
// as they are.
func supply(entry *catalog.Entry, params wire.Object) wire.Object {
	if len(entry.Supplied.Fixed)+len(entry.Supplied.Defaults) == 0 {
		return params
	}
	return params.With("arguments", supplied(entry, params.Object("arguments")).JSON())
}

// supplied adds what is supplied to what a client sent.
func supplied(entry *catalog.Entry, arguments wire.Object) wire.Object {
	for _, fixed := range entry.Supplied.Fixed {
		arguments = arguments.With(fixed.Name, fixed.Value)
	}
	for _, byDefault := range entry.Supplied.Defaults {
		if arguments.Get(byDefault.Name) == nil {
			arguments = arguments.With(byDefault.Name, byDefault.Value)
		}
	}
	return arguments
}

// completing returns the params of a completion for the upstream, or refuses to complete what is fixed. Where the client
// says which arguments it has already, those that are supplied are among them.
func completing(entry *catalog.Entry, params wire.Object) (wire.Object, error) {
	if argument, ok := params.Object("argument").Text("name"); ok && entry.Supplied.Fixes(argument) {
		return nil, invalidArgument(argument, argumentFixed, "it cannot be chosen", nil)
	}
	context := params.Object("context")
	if context.Get("arguments").Kind() != '{' || len(entry.Supplied.Fixed)+len(entry.Supplied.Defaults) == 0 {
		return params, nil
	}
	known := context.Object("arguments")
	if err := checkFixed(entry, known); err != nil {
		return nil, err
	}
	texts := known
	for _, s := range supplied(entry, known) {
		if s.Value.Kind() == '"' { // a completion knows strings only
			texts = texts.With(s.Name, s.Value)
		}
	}
	return params.With("context", context.With("arguments", texts.JSON()).JSON()), nil
}
