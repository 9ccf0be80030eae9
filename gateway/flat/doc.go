// Package flat answers: what does a client get of a prompt that takes one argument and one text at
// most?
//
//	definition ──▶ Definition: several arguments become one, input
//	params     ──▶ Arguments:  input becomes the arguments of the definition again
//	result     ──▶ Result:     all messages become one text of the user
//
// The input begins with a line "name: value" for each argument that has one, exactly as it is
// declared and once. The first other line ends them; it is left out if it is empty. The rest is the
// value of the last required argument without a line, untouched. In a text of several messages,
// headings name their roles.
//
// Promises:
//   - Everything here is a pure function, at a cost in proportion to its arguments.
//   - A value changes no argument but its own, however many lines it has.
//   - Of a result, each text is in the new one, in order, and whatever is left out is named there.
//   - No line of a message reads as a heading: it would be indented by one blank.
package flat
