// Package session keeps one MCP server connected and its list of prompts up to date. Package call sends
// calls on its sessions.
//
//	Run ──▶ openFirst ──▶ serve ──┬── watch ──▶ a mark if the list changed
//	 ▲                            ├── run ──▶ list ──▶ publish, or refused
//	 │                            └── checkHealth ──▶ decide ──▶ the next session
//	 │                                   │ the session broke, or is lost
//	 └── markRenewing, or markDown ◀─────┘
//	     (after a backoff, unless decide has opened the next session)
//
//	Await ──▶ Acquire ──▶ a call on the session ──▶ Prove, if the session may be lost
//	             │                                    │
//	             └─────────── Release ◀───────────────┘
//
// Promises:
//   - Only Run's goroutine replaces the [Connection]. While a connection is served, watch, run and
//     checkHealth have a goroutine each, and an error of one of them ends the others. Run returns
//     when everything that it started has ended: goroutines, streams and the child process.
//   - Run opens a session if there is none. decide opens a session to prove that the current
//     session is lost. The pool opens sessions for clients that can be asked or that request log
//     messages. [client.Session.Recheck] opens one to read the capabilities of a legacy server again.
//   - A [State] is immutable. Only update publishes the next state: PublishCalls for problems of
//     calls, the goroutines of this package for all other changes. [Server.OnLink] receives each begin of a
//     session, each end of one, and each failed attempt to connect.
//   - Of the methods for calls, only Await, Acquire and Prove wait, at most until their context ends.
//   - Only a list proves that a session works. One proof is made at a time, and all failed requests wait for its result.
//     A call ends on the session on which it began, even if another session has replaced that one.
//   - A server that has lost a listed session is up: calls wait for the next session, and the state
//     stays Connected. If no session can be opened, or it is lost before its first list, calls fail at
//     once.
//   - A list is requested after a reported change, from time to time, and after a call has shown that the list may have
//     changed or may be allowed again, but at most four times a second. If a list fails, the last good list stays in use.
//   - An idle server is checked within 30 seconds, a suspect server at once. During a [Pause],
//     calls are refused, lists, connects and the stream of changes wait, and no proof begins.
//
// Package client chooses the transport and the era, starts child processes and explains refusals.
//
// Functions call only functions of later files, except that open makes a lister: run, check, lister,
// proof, connection, legacy, pool, pause, server, telemetry, state, problem, backoff.
package session
