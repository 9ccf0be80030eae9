// Package clientsetup answers: how is a client connected to the gateway?
//
//	promptweir client NAME ──▶ For ──▶ a command or a file for one client
//	a browser at the endpoint ──▶ ServePage ──▶ commands and files for all clients, on a page
//
// Promises:
//   - The output can be pasted as it is. An address with characters that are special to a shell or
//     in JSON is quoted.
//   - The page tells how clients authenticate, but contains nothing about the catalog, the teams or
//     the upstreams. It loads nothing, runs only the script of its copy buttons, and is the same
//     for every caller.
package clientsetup
