// Package gateway answers: what does a client see, and where does its request go?
//
// It merges what the upstreams offer into one catalog, shows each caller the part that the policy lets it see, and
// routes a get to the upstream that owns the prompt:
//
//	client ── HTTP/SSE/stdio ─▶ transport (era, headers, identity) ──▶ principal ──▶ audience
//	                                │
//	                                ▼
//	                        view = the edition's catalog as the audience may see it     (immutable)
//	                                │
//	          prompts/list ◀── page ┤                  (no upstream is asked: memory only)
//	          prompts/get  ──────▶ limits ▶ arguments ▶ breaker ▶ upstream session ▶ raw result back
//	                                │          ◀── questions, progress, log messages meanwhile
//	                                │          ──▶ answers
//	                                │
//	upstream changed ▶ merge ▶ new edition, swapped in ──▶ each subscriber: its own view changed? ▶ list_changed
//
// There are three ways in. Over Streamable HTTP each message stands for itself and brings its session, or none. Over
// HTTP+SSE and stdio all messages of a client are one conversation, and its session is the connection.
//
// A request meets its checks in this order: JSON, headers, identity, visibility, limits, arguments, upstream. Nothing
// about an entry is consulted before its visibility: what a caller may not see is answered, byte for byte, like what does
// not exist.
//
// Promises:
//   - A request loads one edition and uses it to the end. Editions are immutable and swapped atomically.
//   - Whoever lists in response to a list_changed sees the list that the notification was about, or a later one.
//   - A notification goes only to those in whose own view something changed, and costs a slow client nobody's time:
//     what is pending for it is one bit.
//   - What a server asks or says during a get reaches the client that made the get and nobody else. Where neither the
//     transport nor the server says for which, one get is in flight, and the server was heard to be done with the one
//     before: only one that asks later still could be taken amiss. An answer counts once, from the session that was asked
//     or, in the modern era, from the principal that was, for the same get.
//   - No state is kept per client that another replica with the same keys would need. What is tied to this one: streams,
//     HTTP+SSE sessions, requests in flight, their cancellation and the answers that they wait for, log levels, and which
//     sessions were ended here.
//   - A list that is empty because no upstream could be listed yet is an error.
//   - A reload is all or nothing, and costs what it changes only: connectors whose block says the same go on with their
//     sessions and calls, others end their calls first, and streams go on unless their caller is not accepted any more.
//
// The parts: package catalog is the merge, the names and the pages; policy decides visibility; identity knows who calls;
// schema holds arguments against their JSON Schemas; screen holds definitions and results against what must not be in
// them; seal makes the tokens that clients carry; httpconn makes the HTTP server's connections cheap.
package gateway
