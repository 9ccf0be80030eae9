// Package transport answers: how are clients' messages received, and how are responses and
// notifications sent?
//
//	Streamable HTTP ── POST ──▶ exchange: origin ▶ JSON ▶ headers ▶ caller ──┐
//	                                                                        ├─▶ requests.Request ─▶ requests.Handler
//	HTTP+SSE, stdio ──────────▶ connection: JSON ▶ caller ──────────────────┘        │
//	                                                                                 ▼
//	                               relayed messages, then the response ◀── HTTP body, event stream, or line
//	snapshot.Subscription ──▶ follow: the view changed ──▶ list_changed on the client's stream
//
// Over Streamable HTTP each message stands alone and carries its session token, if any. Over
// HTTP+SSE and stdio all messages of a client share a connection, and the connection is the
// session. One driver serves all of them: session.go has what a session of the legacy era does and
// how messages precede a response, stream.go what a stream of changes does. What an HTTP request
// holds, its exchange has, and gives back by one deferred release: memory, its entry among the
// requests in flight, and its response with all that package requests has acquired for it.
//
// Promises:
//   - A request uses the snapshot that is current when it has arrived in full, and is authenticated
//     and answered by that one. Only its origin is checked before its body is read.
//   - No state is kept for a client that a replica with the same keys would need. Tied to this
//     process are: streams, connections, requests in flight and their cancellation, replies that a
//     server request waits for, log levels, and which sessions have ended. Posts of HTTP+SSE, replies
//     and gets that are repeated with replies are forwarded to the replica that they are for.
//   - A reply counts once, and only from the session that the server request was sent to.
//   - After a reload, a stream goes on unless its caller is not accepted any more.
//   - [Transport.Drain] ends streams in the way that their revision defines. Requests in flight are
//     not affected.
package transport
