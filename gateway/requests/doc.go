// Package requests answers: what is the response to one client's request, over any transport?
//
//	Request, Scope ──▶ Handle ──▶ dispatch ──▶ Result or error ──▶ encode ──▶ Response
//	                               │
//	     ┌─────────────────────────┼──────────────────────────┐
//	     ▼                         ▼                          ▼
//	    list                      get                    complete, read
//	    awaitTried                find       the entry in the caller's view, during startup after awaitTried
//	    count                     limit      by gateway, team and rule
//	    position                  check      arguments against the definition
//	    page of the view          callUpstream ──▶ callOwners ──▶ Connector.Call
//	                              screening.result   │  ▲
//	                              sealLinks, form    ▼  │
//	                              passedOn         Relay: progress, logs, server requests and replies
//
// A request meets its checks in this order: visibility, limits, arguments, upstream. Visibility is
// checked before any other property of an entry. So the response is the same, byte for byte, for a
// prompt that the caller may not see and for a prompt that does not exist.
//
// A Request does not change after its transport has made it. A run holds the state of the request
// while it is handled. A Scope holds the resources to release; the transport closes it when the
// response is written. Callers in this process (local.go) and tool calls (tools.go) take the same
// path. The two protocol eras, legacy and modern, differ in one table of functions (era.go); a
// result that passes from one era to the other is converted in result.go and links.go.
//
// A server may ask the client for input during a get. A legacy client is asked in the middle of
// the get (callRepeatedly). A modern client gets an input_required result and repeats the get with
// its replies. If the server is legacy, its get is parked until then (callOrPark, parked.go).
//
// Promises:
//   - A request uses one snapshot from beginning to end, with two exceptions: while the gateway
//     starts, and when a reload replaces its upstream before the call. If the configuration has
//     changed, its caller is authenticated again, and the request fails if the caller is refused.
//   - A server's messages during a get reach only the client that made the get.
//   - A panic ends the request in which it happened, not the process.
//   - Errors distinguish an upstream's own error, which is passed on unchanged unless its code has
//     another meaning in 2026-07-28, from an upstream that gave no usable answer (-32603 with
//     upstream, reason and retryAfterMs in data).
package requests
