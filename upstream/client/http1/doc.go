// Package http1 is a client of HTTP/1.1 (RFC 9112) for one server. An [http.Transport] passes each
// request through two goroutines of the connection, and builds a new head for it. This client
// writes the request and reads the response on the caller's goroutine, and many requests share one
// head:
//
//	Client.Do ──▶ take ──▶ an idle connection, unless the server has closed it or sent something
//	              │ none
//	              ▼
//	          connect ──▶ Dial, and TLS
//	              │
//	              ▼
//	         exchange ──▶ one write of head and body, then the response's head by http.ReadResponse
//	              │
//	              ▼
//	    Response.Body ──▶ at its end: release ──▶ keep the connection idle, or close it
//
// A connection is used again only if the end of the response was marked and read, and nothing
// followed it. In any doubt it is closed. So one request never receives the response of another.
package http1
