// Package http1 is an HTTP/1.1 client (RFC 9112) for one server. It is faster than an [http.Transport], which passes each
// request through two goroutines of the connection and builds a new head for it. This client writes the request and reads
// the response on the caller's goroutine, and many requests share one head:
//
//	Client.Do ──▶ take ──▶ an idle connection
//	              │ none
//	              ▼
//	          connect ──▶ Dial, and TLS
//	              │
//	              ▼
//	         exchange ──▶ one write of head and body, then the response's head by http.ReadResponse. If the server has
//	              │       closed an idle connection or sent something, Do tries the next one.
//	              │
//	              ▼
//	    Response.Body ──▶ at its end: release ──▶ keep the connection idle, or close it
//
// A connection is reused only if the response has a marked end, was read to that end, and nothing followed it. In case of
// doubt it is closed. So a request never receives the response to another request.
package http1
