package flat

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Input is the name of the single argument that replaces several.
const Input = "input"

// maxNames bounds the names of arguments in a message, in bytes.
const maxNames = 1000

// IsOne reports whether a definition with these arguments needs no change.
func IsOne(declared []catalog.Argument) bool { return len(declared) < 2 }

// Definition returns a checked definition with at most one argument.
func Definition(definition jsontext.Value, declared []catalog.Argument) jsontext.Value {
	if IsOne(declared) {
		return definition
	}
	object := wire.Members(definition)
	input := wire.Object{}.With("name", wire.Quote(Input)).
		With("description", wire.Quote(describe(object.Get("arguments"), declared)))
	if slices.ContainsFunc(declared, func(a catalog.Argument) bool { return a.Required }) {
		input = input.With("required", jsontext.Value("true"))
	}
	return object.With("arguments", wire.Array([]jsontext.Value{input.JSON()})).JSON()
}

// describe returns the description of the input, with its form and the arguments.
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
	objects, _ := wire.ParseArray(arguments) // checked before, so it parses
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

// lastRequired returns the index of the last required argument that is not in given, or -1.
func lastRequired(declared []catalog.Argument, given map[string]bool) int {
	for i, a := range slices.Backward(declared) {
		if a.Required && !given[a.Name] {
			return i
		}
	}
	return -1
}

// Arguments returns the arguments of the original definition, from the arguments of a client that
// got [Definition]. The error is a [*wire.Error].
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

// readLines reads the lines "name: value" at the start of a text. It returns the rest, and adds the
// names to given.
func readLines(declared []catalog.Argument, text string, given map[string]bool) (arguments wire.Object, rest string) {
	known := make(map[string]bool, len(declared))
	for i := range declared {
		known[declared[i].Name] = true
	}
	for text != "" {
		line, after, _ := strings.Cut(text, "\n")
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			return arguments, after
		}
		// The blank after the colon is required, so that "https://…" is no value of an argument
		// "https". A blank is added at the end, so that a line "name:" gives an empty value.
		name, value, isValue := strings.Cut(line+" ", ": ")
		if !isValue || !known[name] || given[name] {
			return arguments, text
		}
		given[name] = true
		arguments = append(arguments, wire.Member{Name: name, Value: wire.Quote(strings.Trim(value, " \t"))})
		text = after
	}
	return arguments, ""
}

// names lists the wanted arguments for a message.
func names(declared []catalog.Argument, wanted func(catalog.Argument) bool) string {
	var all []string
	for _, a := range declared {
		if wanted(a) {
			all = append(all, a.Name)
		}
	}
	return wire.Clip(strings.Join(all, ", "), maxNames)
}
