// Package edge answers: may this come in now, and whom does it cost?
//
// What comes in is a connection, a request or a stream of changes. It costs a client: the network
// address until a credential is accepted, then the principal. A connection costs its address to its
// end; one that carries a stream over HTTP/1.1 costs the stream's principal. The address of a
// connection is a proxy's where there is one. A [Ledger] has one account for each client or
// upstream, with all that it holds at this moment: slots of the connection limit, bytes and
// streams. One that holds nothing is closed.
//
// A request over HTTP passes these steps; each may refuse it, or evict somebody:
//
//	Accept ─▶ slot of the address ─▶ Conn.Authenticated ─┬▶ Acquire: bytes
//	          none free:             until the            └▶ OpenStream: a slot
//	          evict a victim         connection ends         of the principal
//
//	bound                            number                     for each              kept by
//	connections, and HTTP/2 streams  Options.Connections        address, principal    eviction
//	of them unauthenticated          an eighth, once all taken  address               eviction
//	bytes of requests, responses     max_buffered, a quarter    principal, upstream   503
//	requests over HTTP/2             32 KiB each, of these      address               503
//	streams (Ledger.CountStream)     limit { streams }          principal             429
//
// Rates are limited by package requests, and the requests in flight of a session by package
// transport, which can cancel them.
//
// Promises of the connection limit, once all slots are taken:
//   - A newcomer always gets in: the owner of the most slots loses one, a kept-alive connection
//     before a stream before another connection.
//   - While more than an eighth of the slots are unauthenticated, the oldest of these goes instead:
//     whatever strangers send, and however often they connect again, a first request loses its
//     connection only if an eighth of the slots is filled anew meanwhile. But an owner of more than
//     an eighth of the unauthenticated ones loses its own.
//   - A stream that is evicted is told so, and gets a second to end as its revision defines.
//   - Eight or more /64 networks of one /48 are one client.
//
// Promises of memory:
//   - One principal or one upstream holds at most a quarter of max_buffered; one principal at most
//     three quarters of an upstream's quarter. Each bound admits one thing, however large, where
//     nothing else counts for it: one larger than max_buffered gets in only while nobody else holds
//     anything.
//
// [Conn] also makes HTTP/1.1 connections cheaper, without a change in what they do. Measured in
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
