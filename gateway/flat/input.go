package flat

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Input is the name of the argument that replaces the arguments of a definition.
const Input = "input"

// maxNames bounds a list of argument names in an error message, in bytes.
const maxNames = 1000

// IsOne reports whether there are fewer than two arguments, so that the definition needs no change.
func IsOne(declared []catalog.Argument) bool { return len(declared) < 2 }

// Definition returns a definition with at most one argument: the same definition, or one with [Input].
// The definition must be valid.
func Definition(definition jsontext.Value, declared []catalog.Argument) jsontext.Value {
	if IsOne(declared) {
		return definition
	}
	object := wire.Members(definition)
	input := wire.Object{}.With("name", wire.Quote(Input)).
		With("description", wire.Quote(describe(object.Get("arguments"), declared))).
		WithTrue("required", slices.ContainsFunc(declared, func(a catalog.Argument) bool { return a.Required }))
	return object.With("arguments", wire.Array([]jsontext.Value{input.JSON()})).JSON()
}

// describe returns the description of the input argument: the form of the input, then the name and
// description of each declared argument.
func describe(arguments jsontext.Value, declared []catalog.Argument) string {
	var text strings.Builder
	text.WriteString(`Lines "name: value", each name once`)
	if main := lastRequired(declared, nil); main >= 0 {
		text.WriteString("; then the text of the last required argument without such a line")
		if only := lastRequired(declared[:main], nil) < 0; only {
			fmt.Fprintf(&text, ", %q", declared[main].Name)
		}
		text.WriteString(". An empty line between them is left out")
	}
	text.WriteString(". Names:")
	objects, _ := wire.ParseArray(arguments) // no error: the definition is valid
	for i, value := range objects {
		fmt.Fprintf(&text, " %q", declared[i].Name)
		if declared[i].Required {
			text.WriteString(" (required)")
		}
		if description, ok := wire.Members(value).Text("description"); ok && description != "" {
			text.WriteString(", " + description)
		}
		text.WriteString(";")
	}
	return strings.TrimSuffix(text.String(), ";")
}

// lastRequired returns the index of the last required argument that is not in given, or -1 if there is none.
func lastRequired(declared []catalog.Argument, given map[string]bool) int {
	for i, a := range slices.Backward(declared) {
		if a.Required && !given[a.Name] {
			return i
		}
	}
	return -1
}

// Arguments parses the input that a client sent, and returns the arguments of the original
// definition. The error is a [*wire.Error].
func Arguments(declared []catalog.Argument, sent wire.Object) (wire.Object, error) {
	if IsOne(declared) {
		return sent, nil
	}
	value := sent.Get(Input)
	if value != nil && value.Kind() != '"' && value.Kind() != 'n' {
		return nil, wire.NewError(wire.InvalidParams, "Invalid argument "+Input+": it must be a string")
	}
	text, _ := wire.Text(value)
	given := map[string]bool{}
	arguments, rest := readLines(declared, text, given)
	main := lastRequired(declared, given)
	switch blank := strings.TrimSpace(rest) == ""; {
	case main < 0 && !blank:
		return nil, wire.NewError(wire.InvalidParams, "Invalid argument "+Input+`: only lines "name: value" can follow, for `+
			names(declared, func(a catalog.Argument) bool { return true }))
	case main >= 0 && !blank:
		given[declared[main].Name] = true
		arguments = append(arguments, wire.Member{Name: declared[main].Name, Value: wire.Quote(rest)})
	}
	if at := lastRequired(declared, given); at >= 0 {
		data := wire.Object{}.With("argument", wire.Quote(wire.Clip(declared[at].Name, maxNames))).With("reason", wire.Quote("missing"))
		missing := names(declared, func(a catalog.Argument) bool { return a.Required && !given[a.Name] })
		return nil, wire.NewError(wire.InvalidParams, "Missing required arguments: "+missing+
			`; write a line "name: value" for each in `+Input).WithData(data.JSON())
	}
	return arguments, nil
}

// readLines parses the lines "name: value" at the start of a text, and adds their names to given. It
// returns the text after these lines as rest.
func readLines(declared []catalog.Argument, text string, given map[string]bool) (arguments wire.Object, rest string) {
	isDeclared := make(map[string]bool, len(declared))
	for i := range declared {
		isDeclared[declared[i].Name] = true
	}
	for text != "" {
		line, after, _ := strings.Cut(text, "\n")
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			return arguments, after
		}
		// Require a space after the colon: "https://…" is not a value of an argument "https". The
		// added space turns a line "name:" into an empty value.
		name, value, isValue := strings.Cut(line+" ", ": ")
		if !isValue || !isDeclared[name] || given[name] {
			return arguments, text
		}
		given[name] = true
		arguments = append(arguments, wire.Member{Name: name, Value: wire.Quote(strings.Trim(value, " \t"))})
		text = after
	}
	return arguments, ""
}

// names lists the names of the wanted arguments, for an error message.
func names(declared []catalog.Argument, wanted func(catalog.Argument) bool) string {
	var all []string
	for _, a := range declared {
		if wanted(a) {
			all = append(all, a.Name)
		}
	}
	return wire.Clip(strings.Join(all, ", "), maxNames)
}
