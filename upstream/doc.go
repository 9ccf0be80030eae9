// Package upstream keeps one MCP server connected and makes calls to it, or serves a folder of
// prompts instead.
//
// A [Connector] serves one upstream of the configuration, whatever its revision and transport:
//
//	Run:  connect ──▶ session ──▶ list ──▶ watch for changes ──▶ list again …
//	        ▲  │ backoff, 0.2 s to 9 s, with jitter    │
//	        └──┴──────────── broken ◀──────────────────┘
//
//	Call: queue ──▶ health ──▶ session ──▶ transport
//	                  ▲                        │
//	                  └── no byte of a response: again after a pause, if retry says so
//
// Promises:
//   - [New] contacts nothing and starts nothing. [Connector.Run] does, and returns when its context
//     has ended and everything that it started has: goroutines, streams and the child process.
//   - A server that is down is not an error of Run: it shows in [State] until the server is back. A
//     server that only lost its session, whose HTTP+SSE stream ended, or that now speaks the
//     other era, gets a new session, and calls wait for it. Only a list proves a session.
//   - The list in [State] is always complete. A refresh that fails, or that exceeds a bound, leaves
//     the last good list in place and is repeated within half a minute. No change is lost, neither
//     during a refresh nor while a stream was broken.
//   - A server that hangs is noticed within 35 seconds if it is idle, and within 3 seconds of the
//     end of a call that it left without an answer.
//   - A request is never repeated once any byte of its response has arrived, or its client was
//     asked something. There are two exceptions. A get that a server of both eras refuses because it
//     cannot ask the client in the modern one: see attempt.go. A get whose error a lost session
//     explains, once it is proven to be lost: see proof.go. Package client has another, below the
//     level of responses.
//   - Waiting callers are served in turn. A call that has waited for half of its time is refused, not
//     sent.
//   - Errors distinguish a server that answered with an error ([*wire.Error]) from one that did not
//     answer ([*Unavailable]). Only the latter count in the circuit breaker, and only those that
//     are the server's fault: not a caller that gave up, not the wait for a slot, not an attempt
//     that had hardly any time. One principal's failures alone do not open it.
//   - A server that lists its prompts, and fails every get, is in trouble too: [State.Problem] says
//     so after five in a row, until a get succeeds.
//   - A server that asks for a pause by a Retry-After gets it: calls are refused at once, lists and
//     connects wait. So does one whose token endpoint asks for it.
//   - Messages of a server go to the [Relay] of the call that they belong to, and to no other.
//     Sessions that declare a client's capabilities come from a pool for each set of capabilities.
//
// An upstream may be a folder of files instead of a server: then a connector checks for changes
// every 0.4 seconds, and answers calls from memory. What is in the files is package files.
//
// What is known of a server, and what follows from it, is package health; the slots of an
// upstream are package queue. The MCP client is package client, over the HTTP client of
// package http1; JSON-RPC and MCP as bytes are package wire.
package upstream
