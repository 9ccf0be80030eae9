// Package clientsetup answers: how is a client pointed at the gateway?
//
//	promptweir client NAME ──▶ For ──▶ a command or a file for one client
//	a browser at the endpoint ──▶ ServePage ──▶ all of them, on a page
//
// Promises:
//   - What is printed can be pasted as it is. An address with characters that a shell or JSON would
//     read is quoted.
//   - The page says how clients authenticate, and nothing of the catalog, the teams or the
//     upstreams. It loads nothing, runs only the script of its copy buttons, and is the same for
//     every caller.
package clientsetup
