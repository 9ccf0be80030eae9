// Package client is an MCP client for one server address.
//
// A [Dialer] opens a [Session]: it reaches the server, detects its era, and agrees on a protocol
// revision. After that the session hides era and transport:
//
//	Call ──▶ params with _meta ──▶ transport ─┬─ Streamable HTTP: a POST for each message, JSON or event stream back
//	  ▲                                       ├─ HTTP+SSE: POSTs, everything comes back on one GET stream
//	  │                                       └─ stdio: a child process, a line for each message
//	  │ response ◀────────────────────────────┤
//	Relay ◀── progress, logs, server requests ┘
//
// Promises:
//   - What a server says is handed on as raw JSON. Params go out as they are, except the members of
//     _meta that belong to one hop.
//   - A message of the server goes to the call that it belongs to: the call on whose stream it
//     arrived, whose progress token it carries, or the only one that it can belong to. Others are
//     refused at once, or dropped.
//   - A response stream of the legacy era whose events have ids is resumed where it stopped, within
//     the call's time.
//   - A request is sent a second time in two cases only, once each: the server refused the access
//     token, or a kept connection broke within a second and before any byte of a response. The
//     latter never repeats a handshake, nor a request whose relay may already have passed something
//     on.
//   - With an oauth block, no request goes out without an access token. All addresses of a server
//     share one.
//   - Errors and logs contain no URL, header or environment value of the configuration.
//   - [Session.Close] returns when everything that belongs to the session has ended, a child
//     process included.
//
// The package does not judge: which failure counts in a circuit breaker, and what is tried
// elsewhere, is decided in package upstream.
package client
