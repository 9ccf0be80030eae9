// Command promptweir answers: how is the gateway run, and what do its commands print?
//
// It wires config, upstream and gateway together. The README beside this file describes each command, and how to operate a
// gateway.
//
//	main ──▶ run ──▶ serve, stdio                     a gateway that reloads its configuration
//	                 list, get --config; --live       a gateway that runs for one result
//	                 explain, diff, lock, list --as   a snapshot that is evaluated, without a gateway
//	                 list, get --url; probe           an MCP client
//	                 validate, fmt, token, init,      configuration only
//	                 import, client
//
// Promises:
//   - The exit code is 0 for success, 1 for a failure or a finding, 2 for wrong usage, and 130 for a command that was
//     interrupted.
//   - Standard output carries results only. Logs, diagnostics and errors go to standard error.
//   - Nothing is printed that acts on a terminal or that people cannot see: in its place stands U+FFFD, in JSON an escape.
//   - A command that reads a configuration starts and contacts nothing unless it serves, --live says so, or what it prints
//     cannot be had otherwise (get, and list without --as).
//
// Reading order: main.go, root.go, help.go, serve.go, stdio.go, stdio_failure.go, healthcheck.go, drain.go, server.go, descriptors.go,
// descriptors_unix.go, descriptors_windows.go, certificate.go, service_manager.go, pprof.go, memory.go, telemetry.go, list.go,
// list_filter.go, list_print.go, table.go, get.go, get_source.go, get_ask.go, get_elicit.go, person.go, person_unix.go,
// person_windows.go, get_save.go, query.go, explain.go, diff.go, lock.go, list_source.go, gateway.go, principal.go, probe.go,
// probe_oauth.go, session.go, validate.go, validate_live.go, fmt.go, replace_file.go, token.go, init.go, import.go, client.go, completion.go,
// complete.go, version.go, load.go, app.go, log.go, log_terminal.go, output_flag.go, output.go, dumpable_linux.go, dumpable_other.go
package main
