// Command promptweir runs and operates a gateway. It wires config, upstream and gateway together. The README
// beside this file describes each command.
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
//     an interrupted command.
//   - Standard output contains only results. Logs, diagnostics and errors go to standard error.
//   - Printed text neither controls the terminal nor has invisible characters (internal/terminal).
//   - A command starts and contacts servers of a configuration only to serve, with --live, or if its result
//     depends on them (get, and list without --as).
package main
