// Package edge answers: may this connection, request or stream come in now, and on whose account?
//
// A connection counts for its address; behind a reverse proxy, that is the proxy's address. A request counts
// for the address until its credential is accepted, then for the principal. A stream of notifications counts
// for its principal. A [Ledger] has one account for each client or upstream, with the number of its
// connections, bytes and streams at this moment. Empty accounts are deleted.
//
//	Accept ─▶ Conn.Authenticated ─┬▶ Acquire: bytes
//	                              └▶ OpenStream
//
//	bound                            number                    for each              beyond it
//	connections, and HTTP/2 streams  Options.Connections                             closed; 429
//	connections without a credential half of them                                    closed
//	connections                      a quarter of them         address, not a proxy  closed
//	streams                          a quarter, less by limit  principal             429
//	bytes of requests, responses     max_buffered, a quarter   principal, upstream   503
//	requests over HTTP/2             32 KiB of these, each     address               503
//
// Rates are limited by package requests, and the requests in flight of a session by package
// transport, which can cancel them.
//
// A connection is never closed to make room for another: an accepted connection stays, and a new connection
// beyond a bound is closed unread. The HTTP server closes silent connections: after 10 s without a complete
// header, or 2 minutes without a request.
//
// Promises of memory:
//   - One principal or one upstream holds at most a quarter of max_buffered. One principal holds at most
//     three quarters of an upstream's quarter.
//   - The exception: each bound admits one request or response of any size while nothing else counts for that
//     bound. One larger than max_buffered is admitted only while no other client holds anything.
//
// [Conn] also makes HTTP/1.1 connections cheaper, without a change of behaviour. Measured in pairs of builds
// with and without the change (median ratio of CPU per request, 95 % confidence interval):
//
//	Write: header and body in     list of 100    0.85 (0.73–0.88)
//	one system call, no copy      list of 1 000  0.94 (0.91–0.96)
//	                              get of 1 MB    0.93 (0.92–0.95)
//	deadlines that are replaced   list of 10     0.93 (0.89–0.96)
//	before they pass are not set  get of 0.3 KB  0.96 (0.93–0.99)
//
// Conn does not depend on the internals of net/http: its buffer sizes, flushes and deadlines affect the cost,
// not the result.
package edge
