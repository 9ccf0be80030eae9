// Command promptweir answers: how is the gateway run, and what do its commands print?
//
// It wires config, upstream and gateway together. The README beside this file describes each
// command, and how to operate a gateway.
//
//	main ──▶ run ──▶ serve, stdio                     a gateway that reloads its configuration (internal/serving)
//	                 list, get --config; --live       a gateway that runs for one result
//	                 explain, diff, lock, list --as   a snapshot that is evaluated, without a gateway
//	                 list, get --url; sync            an MCP client; sync writes files (internal/syncdir)
//	                 validate, fmt, token, init,      configuration only
//	                 import, client
//
// Promises:
//   - The exit code is 0 for success, 1 for a failure or a finding, 2 for wrong usage, and 130 for
//     a command that was interrupted.
//   - Standard output carries results only. Logs, diagnostics and errors go to standard error.
//   - Nothing is printed that acts on a terminal or that people cannot see (internal/terminal).
//   - A command that reads a configuration starts and contacts nothing unless it serves, --live
//     says so, or what it prints cannot be had otherwise (get, and list without --as).
package main
