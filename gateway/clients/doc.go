// Package clients answers: what does a client make of a prompt?
//
//	table.go: client ─▶ its behaviours ┐
//	prompt, in the list of a caller ───┴─▶ List.Losses ─▶ what it hides, cuts or garbles, and a remedy
//
// Promises:
//   - It is pure. A loss follows from the definition, its place in the list and, where they are
//     known, the messages; where they are not, nothing is said of them.
//   - It is for operators and authors. Nothing here changes what a client gets: the gateway never
//     chooses by who a client says it is.
package clients
