// Package edge answers: may this come in now, and whom does it cost?
//
// It decides about connections, requests and streams of changes. A connection counts for its
// address, which is the proxy's if there is a reverse proxy. A request counts for the address until
// its credential is accepted, then for the principal. A stream counts for its principal. A [Ledger]
// has one account for each client or upstream: its connections, bytes and streams at this moment.
// An account that holds nothing is closed.
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
//	requests over HTTP/2             32 KiB each, of these     address               503
//
// Rates are limited by package requests, and the requests in flight of a session by package
// transport, which can cancel them.
//
// A connection is never closed to make room for another: an accepted connection stays, and a new
// connection beyond a bound is closed unread. Silent connections end by the server's timeouts: 10 s
// for a header, 2 minutes without a request.
//
// Promises of memory:
//   - One principal or one upstream holds at most a quarter of max_buffered; one principal at most
//     three quarters of an upstream's quarter. Each bound admits one request or response of any
//     size while nothing else counts for that bound: one larger than max_buffered is admitted only
//     while no other client holds anything.
//
// [Conn] also makes HTTP/1.1 connections cheaper, without a change of behaviour. Measured in
// pairs of builds with and without (median ratio of CPU per request, 95 % confidence interval):
//
//	Write: header and body in     list of 100    0.85 (0.73–0.88)
//	one system call, no copy      list of 1 000  0.94 (0.91–0.96)
//	                              get of 1 MB    0.93 (0.92–0.95)
//	deadlines that are replaced   list of 10     0.93 (0.89–0.96)
//	before they pass are not set  get of 0.3 KB  0.96 (0.93–0.99)
//
// It relies on no internals of net/http: the size of its buffers, when it flushes them and which
// deadlines it sets make a difference to the cost, not to the result.
package edge
