// Package flat answers: what does a client get that supports only one argument and one text?
//
//	definition ──▶ Definition: several arguments become one, input
//	params     ──▶ Arguments:  input becomes the arguments of the definition again
//	result     ──▶ Result:     all messages become one text of the user
//
// The input begins with lines "name: value". Each name is spelled as declared, and occurs once. The
// first line of another form ends these lines; if it is empty, it is dropped. All following text,
// unchanged, is the value of the last required argument that has no such line. If a result has several
// messages, headings in the text name their roles.
//
// Promises:
//   - All functions are pure, and take time in proportion to the size of their arguments.
//   - After the first line of another form, no line sets an argument.
//   - The new text contains each text of a result, in order, and mentions all content that it leaves
//     out.
//   - A line of a message cannot pass for a heading: such a line is indented by one space.
package flat
