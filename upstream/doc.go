// Package upstream connects the gateway to one upstream of the configuration: an MCP server of any
// supported revision and transport, or a folder of prompt files.
//
//	Connector.Run ───▶ session.Server.Run   keeps a server connected and listed
//	         .Call ──▶ call.Calls.Do        queue, attempts, breaker
//	              └──▶ folder.call          from memory; Folders reads the files every 0.4 s
//	         .State ◀─ the status of either
//
// Promises:
//   - [New] contacts nothing and starts nothing. [Connector.Run] starts the work. It returns after
//     its context and everything that it started have ended: goroutines, streams and the child
//     process.
//   - Run returns no error for a server that is down. [State] shows the problem until the server is
//     back. A server that only lost its session, or that now speaks the other era, gets a new
//     session, and calls wait for it.
//   - The list in [State] is always complete. A refresh that fails, or that exceeds a bound, leaves
//     the last good list in place. The refresh is repeated within about half a minute, or after a
//     pause that the server asked for. Changes during a refresh, or while a stream is broken, are
//     not lost.
//   - A server that is silent for 30 seconds is pinged. So an idle server that hangs is noticed
//     after 30 seconds plus its timeout. After a call without an answer, the server is pinged at
//     once.
//   - A request is not repeated after a part of its JSON-RPC response has arrived, or after its
//     client was asked for input. Two exceptions are repeated: a get that a server of both eras
//     refuses because it cannot ask the client in the modern era (session/legacy.go), and a call
//     whose error comes from a session that is then proven to be lost (session/proof.go). An HTTP
//     error without a JSON-RPC response, such as 502, permits a repetition. Package client may also
//     send an HTTP request twice.
//   - Waiting callers are served in turn. A call that has waited for half of its timeout is
//     refused.
//   - Errors distinguish a server that answered with an error ([*wire.Error]) from a server that
//     gave no usable answer ([*Unavailable]). Only errors of the second kind count in the circuit
//     breaker, and only if they are the server's fault. The failures of a single caller with a
//     key do not open the breaker.
//   - [State.Problem] explains why a list may be outdated, or why calls fail. Calls have a problem
//     while the circuit breaker is not closed, and after five failed gets in a row, until a get
//     succeeds.
//   - A pause that a server, or its token endpoint, requests by a Retry-After is respected: calls
//     are refused at once, lists and connects wait.
//   - A server's message goes only to the [Relay] of the call to which it belongs.
//
// Below this package are session, call, files (prompts from Markdown), client (an MCP client, over
// the HTTP client of http1) and wire (JSON-RPC and MCP as bytes). The gateway calls upstreams
// through this package.
package upstream
