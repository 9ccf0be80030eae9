// Package transport answers: how are clients' messages received, and how are responses and
// notifications sent?
//
//	Streamable HTTP ── POST ──▶ exchange: origin ▶ JSON ▶ headers ▶ caller ──┐
//	                                                                        ├─▶ requests.Request ─▶ requests.Handler
//	HTTP+SSE, stdio ──────────▶ connection: JSON ▶ caller ──────────────────┘        │
//	                                                                                 ▼
//	                               relayed messages, then the response ◀── HTTP body, event stream, or line
//	publish.Subscription ──▶ follow: the view changed ──▶ list_changed on the client's stream
//
// Over Streamable HTTP each message stands alone and contains its session token, if any. Over
// HTTP+SSE and stdio all messages of a client share a connection, which is the session. All
// transports share session.go, with the sessions of the legacy era and the messages before a
// response, and stream.go, with the streams of changes. A [requests.Scope] has everything that a
// request holds. It is closed when the response was written: by the exchange, or by the goroutine
// that writes to the connection.
//
// Promises:
//   - A request uses the snapshot that is current when it has arrived completely. That snapshot
//     authenticates and answers it. Before the body is read, the origin and some headers are
//     checked, but not the credential.
//   - A session over Streamable HTTP is in its token, so that any replica with the same keys can
//     serve it. Tied to this process are: streams, connections, requests in flight and their
//     cancellation, server requests without a reply, log levels, and the ended sessions. Posts of
//     HTTP+SSE, replies, and gets with replies are forwarded to their replica.
//   - A reply counts once, and only from the session that received the server request.
//   - After a reload a stream goes on if its caller is still accepted.
//   - [Transport.Drain] ends streams as their revision requires. Requests in flight go on.
package transport
