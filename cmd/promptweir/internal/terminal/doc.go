// Package terminal answers: what may a command print, and how does it ask a person?
//
// Names, messages and paths come from teams, servers and clients, so none of them may act on the
// terminal of the person who reads them: change its title, clear it, write to its clipboard, or
// reverse what follows.
//
//	result, error ──▶ Printable ──▶ standard output, standard error    U+FFFD in place of what could act
//	JSON          ──▶ PrintJSON ──▶ standard output                    an escape in its place: the meaning stays
//	log record    ──▶ LogHandler ──▶ standard error, where a person reads it
//	question      ──▶ Prompter  ──▶ the terminal itself, whatever is redirected
//
// Promises:
//   - What is written through this package is text: [Showable] runes, line feeds and tabs, and the
//     colours of this package.
//   - A value that a person may choose is offered only if it can be shown whole: with U+FFFD in it,
//     it would be another.
//   - [Indented] keeps the lines of a text apart from the lines of the program around it.
package terminal
