package wire

// GetParams returns the params of prompts/get. If arguments is nil, the params have no member
// "arguments".
func GetParams(name string, arguments Object) Object {
	params := Object{}.With("name", Quote(name))
	if arguments != nil {
		params = params.With("arguments", arguments.JSON())
	}
	return params
}

// CompleteParams returns the params of completion/complete for a prompt's argument and the
// beginning of its value. given are the values of other arguments, which become the context.
func CompleteParams(prompt, argument, value string, given Object) Object {
	ref := Object{}.With("type", Quote("ref/prompt")).With("name", Quote(prompt))
	word := Object{}.With("name", Quote(argument)).With("value", Quote(value))
	params := Object{}.With("ref", ref.JSON()).With("argument", word.JSON())
	if len(given) > 0 {
		params = params.With("context", Object{}.With("arguments", given.JSON()).JSON())
	}
	return params
}
