// Package requests answers: what is the response to one client's request, whatever transport it
// came by?
//
//	Request {snapshot, caller, message …} ──▶ Handler.Handle
//	      list ──▶ settle ▶ limit ▶ cursor ▶ page of the caller's view            (from memory: no upstream is called)
//	      get  ──▶ settle ▶ visibility ▶ limits ▶ arguments ▶ owner's connector ▶ screens ▶ the raw result
//	                                                              │      ▲
//	                    Relay: progress, logs, server requests ◀──┘      └── replies to server requests
//
// A request meets its checks in this order: visibility, limits, arguments, upstream. Nothing about
// an entry is consulted before its visibility, so that a prompt that the caller may not see is
// answered, byte for byte, like one that does not exist.
//
// A server may need input from the client to answer a get. A client of the legacy era is asked in
// the middle of the get; a client of the modern era gets an input_required result and repeats the
// get with its replies. Between a modern client and a legacy server, the get is parked here
// meanwhile (parked.go); between a legacy client and a modern server, the gateway repeats the get
// (input_required.go).
//
// At a variant of the endpoint, only the forms of definitions, arguments and results differ: flat
// converts them, and tools.go makes the call of a tool the list or get that it stands for.
//
// Promises:
//   - A request uses one snapshot from beginning to end. Where it has to move to a later one,
//     because its upstream was replaced by a reload, its caller is authenticated again, or the
//     request fails.
//   - What a server sends during a get reaches the client that made the get, and no other client.
//   - A panic ends the request in which it happened, not the process.
//   - Errors distinguish an upstream that answered with an error, which is passed on unchanged,
//     from one that did not give a usable answer (-32603 with upstream, reason and retryAfterMs in
//     data).
package requests
