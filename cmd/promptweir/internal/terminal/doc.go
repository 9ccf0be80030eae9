// Package terminal prints text that cannot control a terminal, and asks questions.
//
// Names, messages and paths come from teams, servers and clients. They must not change the title of
// a reader's terminal, clear it, write to its clipboard, or reverse the reading direction.
//
//	result, error ──▶ Printable ──▶ standard output, standard error    U+FFFD replaces other characters
//	JSON          ──▶ PrintJSON ──▶ standard output                    an escape replaces them: the meaning stays
//	log record    ──▶ PrintableJSON ──▶ standard error, as JSON
//	question      ──▶ Prompter  ──▶ the terminal itself, despite redirections
//
// Promises:
//   - Output of this package consists of printable runes ([unicode.IsPrint]), line feeds, tabs, and
//     its own colours.
//   - A person can only choose values that are shown unchanged.
//   - [Indented] separates the lines of a text from the lines of the program.
package terminal
