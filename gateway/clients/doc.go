// Package clients answers: what does a client lose of a prompt?
//
//	table.go: client ─▶ its behaviours ┐
//	prompt, in the list of a caller ───┴─▶ List.Losses ─▶ what it hides, cuts or garbles, and a remedy
//
// Promises:
//   - The package is pure: a loss follows from the definition, its position in the list and, if known, the
//     messages.
//   - The package only informs operators and authors: the gateway never decides by a client's name.
package clients
