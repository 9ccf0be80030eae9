// Package http1 is a client of HTTP/1.1 (RFC 9112) for one server. An [http.Transport] hands each request to
// two goroutines of its connection, and makes its head anew. This client writes a request and reads the
// response on the goroutine of the caller, and many requests share one head:
//
//	Client.Do ──▶ take ──▶ an idle connection, unless it has ended or has said something
//	              │ none
//	              ▼
//	          connect ──▶ Dial, and TLS
//	              │
//	              ▼
//	         exchange ──▶ one write of head and body, then the response's head by http.ReadResponse
//	              │
//	              ▼
//	    Response.Body ──▶ at its end: release ──▶ put among the idle ones, or close
//
// A connection is used again only after a response whose end was marked and read, and after which nothing
// came. In any doubt it is closed: so the response to one request is never taken for that to another.
package http1
