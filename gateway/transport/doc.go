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
// Over Streamable HTTP, each message stands alone and contains its session token, if it has a session.
// Over HTTP+SSE and stdio, all messages of a client share a connection, which is the session. All
// transports share session.go (sessions of the legacy era, messages before a response) and stream.go
// (streams of notifications). A [requests.Scope] contains everything that a request must release. It is
// closed after the response has been written: by the exchange, or by the goroutine that writes to the
// connection.
//
// Promises:
//   - A request is authenticated and answered with the snapshot that is current when its body has
//     arrived. Before the body is read, the origin and some headers are checked, but not the
//     credential.
//   - The token of a session over Streamable HTTP contains its state, so that any replica with the same
//     keys can serve the session. Only this process has: streams, connections, requests in flight,
//     server requests without a reply, log levels, and ended sessions. Posts of HTTP+SSE, replies, and
//     gets with replies are forwarded to the replica that has their state.
//   - A reply counts once, and only from the session that received the server request.
//   - After a reload, a stream continues if its caller is still accepted.
//   - [Transport.Drain] ends streams as their revision requires. Requests in flight continue.
package transport
