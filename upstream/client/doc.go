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
//   - Messages of the server are passed on as raw JSON; only optional members that are null are
//     removed from results. Params are sent unchanged, except the members of _meta that belong to
//     one hop.
//   - A message from the server goes to the call on whose stream it arrived, or whose progress
//     token it carries, or to the only call in flight. Pings are answered, other requests are
//     refused at once, other notifications are dropped.
//   - If a response stream of the legacy era breaks and its events have ids, it is resumed where it
//     stopped, within the call's time.
//   - A request is sent a second time in two cases, once each: the server refused the access token, or a reused
//     connection broke within a second and before a response. In the second case, initialize is not repeated, nor a
//     request whose relay may have passed something on.
//   - With an oauth block, every request carries an access token. All sessions with a server share
//     it.
//   - Errors and logs contain no URL, header or environment value of the configuration.
//   - [Session.Close] returns when everything that belongs to the session has ended, a child
//     process included.
//
// Package call decides which failures count in the circuit breaker and which failed calls are sent again.
package client
