// Package clientsetup answers: how is a client connected to the gateway?
//
//	promptweir client NAME ──▶ For ──▶ a command or a file for one client
//	a browser at the endpoint ──▶ ServePage ──▶ commands and files for all clients, on a page
//
// Promises:
//   - The output can be pasted unchanged: special characters of an address are quoted for the shell or for
//     JSON.
//   - The page explains how clients authenticate, but contains nothing about the catalog, the teams or the
//     upstreams. It loads no other files, runs only the script of its copy buttons, and is the same for every
//     caller.
package clientsetup
