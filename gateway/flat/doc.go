// Package flat answers: what does a client get that supports only one argument and one text?
//
//	definition ──▶ Definition: several arguments become one, input
//	params     ──▶ Arguments:  input becomes the arguments of the definition again
//	result     ──▶ Result:     all messages become one text of the user
//
// The input begins with lines "name: value". Each name is spelled as it is declared, and occurs
// once. The first line of another form ends these lines, and is left out if it is empty. The rest
// of the input is, unchanged, the value of the last required argument without such a line. In a
// text of several messages, headings name the roles.
//
// Promises:
//   - Everything here is a pure function, at a cost in proportion to its arguments.
//   - After the first line of another form, no line sets an argument.
//   - The new text contains each text of a result, in order, and names everything that is left out.
//   - No line of a message reads as a heading: such a line is indented by one blank.
package flat
