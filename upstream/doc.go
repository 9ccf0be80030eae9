// Package upstream answers: how do I talk to one MCP server, and is it there?
//
// A [Connector] holds one session to each endpoint of one server, whatever its revision and transport, and keeps the
// last good list of its prompts. Most servers have one endpoint; replicas are several:
//
//	Run:  for each endpoint
//	      connect ──▶ session ──▶ list ──▶ watch for changes ──▶ list again …
//	        ▲  │ backoff, 0.2 s to 10 s, jittered      │
//	        └──┴──────────── broken ◀──────────────────┘
//
//	State:  standing of endpoint 1 ─┐
//	        standing of endpoint 2 ─┼─▶ union of the lists, what differs, what is amiss
//	        standing of endpoint 3 ─┘
//
//	Call: rate ──▶ slots ──▶ an endpoint that has the prompt, in turn ──▶ breaker ──▶ session ──▶ transport
//	                            ▲                                            │
//	                            └─── no byte of an answer: the next, or ◀────┘
//	                                 after a pause the same once more
//
// A transport is Streamable HTTP, HTTP+SSE or a child process.
//
// Promises:
//   - [New] contacts nothing and starts nothing; [Connector.Run] does, and returns when its context ends and
//     everything that it started has ended: goroutines, streams and the child process.
//   - A server that is down is no error of Run's: it stays in [State] until the server is back. A server that only
//     forgot its session, or whose HTTP+SSE stream ended, is given a new one, and calls wait for it.
//   - The list in [State] is always a whole one. A refresh that fails, or that a guard stops, leaves the last, and
//     is tried again within half a minute. No change is lost: not during a refresh, not while a stream was broken.
//   - Each endpoint has its own session, breaker and list; rate, concurrency and timeout are the upstream's. With a
//     prompt on several endpoints, a call fails only when none of them answers in its timeout.
//   - What a call asks is never asked twice once something of an answer has come. A response stream of the legacy era
//     whose events have ids is gone on with where it stopped, within the call's time. A connection that an HTTP server closes
//     just when a request goes out on it is no answer: within a second the request goes out again, three times at most.
//   - Errors keep apart a peer that answered no ([*wire.Error]) from one that did not answer ([*Unavailable]).
//     Only the second kind counts in the breaker, and of it only what the peer can help: not a caller's own end,
//     not the wait for a turn or a slot, not an attempt that had hardly any time.
//   - What a server says is passed on as raw JSON. Params travel as they are, but for the members of _meta that each
//     hop owns.
//   - What a server asks or says during a call goes to the [Client] that the call is for, and to nobody else: by the
//     stream that it came on, its progress token, or because it can be for nobody else. What belongs to no call is refused
//     at once, or dropped. For clients that can be asked there are further sessions, see [asides].
//   - With an oauth block, no request goes out without an access token. One is shared by all endpoints; that the token
//     endpoint is down is no answer, and its refusal is the upstream's.
//
// The package knows nothing of the gateway. The parts: package wire is JSON-RPC and MCP as bytes; cancel has contexts that cost
// little where thousands wait.
package upstream
