// Package requests answers: what is the response to one client's request, over any transport?
//
//	Request, Scope ──▶ Handle ──▶ dispatch ──▶ Result or error ──▶ encode ──▶ Response
//	                               │
//	     ┌─────────────────────────┼──────────────────────────┐
//	     ▼                         ▼                          ▼
//	    list                      get                    complete, read
//	    awaitTried                find       the entry in the caller's view, at the start after awaitTried
//	    count                     limit      by gateway, team and rule
//	    position                  check      arguments against the definition
//	    page of the view          callUpstream ──▶ callOwners ──▶ Connector.Call
//	                              screening.result   │  ▲
//	                              sealLinks, form    ▼  │
//	                              passedOn         Relay: progress, logs, server requests and replies
//
// A request meets its checks in this order: visibility, limits, arguments, upstream. No property of
// an entry is consulted before its visibility, so that the response for a prompt that the caller
// may not see is, byte for byte, the response for a prompt that does not exist.
//
// A Request does not change once its transport has made it. A run has the state of the request
// while it is handled. A Scope has everything that must be released; the transport closes it when
// the response is written. A caller in this process (local.go) and the call of a tool (tools.go)
// take the same path. A table of functions has the differences between the two eras (era.go).
//
// A server may ask for input during a get. A legacy client is asked in the middle of it
// (callRepeatedly); a modern client gets an input_required result and repeats the get with its
// replies, for which a legacy server's get is parked (callOrPark, parked.go).
//
// Promises:
//   - A request uses one snapshot from beginning to end, except at the start, and after a reload
//     that replaced its upstream: then its caller is authenticated again, or the request fails.
//   - A server's messages during a get reach only the client that made the get.
//   - A panic ends the request in which it happened, not the process.
//   - Errors distinguish an upstream's own error, which is passed on unchanged unless its code has
//     another meaning in 2026-07-28, from an upstream that gave no usable answer (-32603 with
//     upstream, reason and retryAfterMs in data).
package requests
