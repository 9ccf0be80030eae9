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
//     the last good list in place. It is repeated within about half a minute, or after a pause that
//     the server asked for. No change is lost, neither during a refresh nor while a stream was
//     broken.
//   - An idle server that hangs is noticed after 30 seconds and its timeout: it is pinged after 30
//     seconds of silence. It is pinged at once after a call that it left without an answer.
//   - A request is not repeated after a part of its JSON-RPC response has arrived, or after its
//     client was asked something. There are two exceptions. A get that a server of both eras
//     refuses because it cannot ask the client in the modern one: see session/legacy.go. A get
//     whose error a lost session explains, once it is proven to be lost: see session/proof.go. An
//     HTTP error without a JSON-RPC response, such as 502, permits a repetition. Package client may
//     also send an HTTP request twice.
//   - Waiting callers are served in turn. A call that has waited for half of its timeout is
//     refused.
//   - Errors distinguish a server that answered with an error ([*wire.Error]) from a server that
//     gave no usable answer ([*Unavailable]). Only errors of the second kind count in the circuit
//     breaker, and only if they are the server's fault. The failures of one known caller do not
//     open it.
//   - [State.Problem] says why a list is not fresh, or why calls fail: while the circuit breaker is
//     not closed, or after five gets in a row that failed, until one succeeds.
//   - A pause that a server, or its token endpoint, requests by a Retry-After is respected: calls
//     are refused at once, lists and connects wait.
//   - A server's message goes to the [Relay] of the call that it belongs to, and to no other.
//
// Below this package are session, call, files (prompts from Markdown), client (an MCP client, over
// the HTTP client of http1) and wire (JSON-RPC and MCP as bytes). The gateway calls upstreams
// through this package.
package upstream
