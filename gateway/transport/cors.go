package transport

import "net/http"

// What a browser lets a page of an allowed origin send and read (Fetch standard, "CORS protocol"). Every header that begins
// with Mcp- has to be named: where credentials are sent, a browser takes no pattern.
const (
	allowedMethods = "GET, POST, DELETE"
	allowedHeaders = "Authorization, Content-Type, Accept, Last-Event-ID, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name"
	exposedHeaders = "Mcp-Session-Id, WWW-Authenticate"
	// preflightAge is how long a browser may remember the answer, in seconds.
	preflightAge = "7200"
)

// shareWithOrigin lets a page of an allowed origin read the response. It reports whether it has answered the request, which
// then was a preflight: it has no credentials, and asks for nothing of the caller's.
func (x *exchange) shareWithOrigin() (answered bool) {
	origin := x.snapshot.Origins.Allowed(x.r)
	if origin == "" {
		return false
	}
	header := x.w.Header()
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Vary", "Origin")
	if x.r.Method != http.MethodOptions || x.r.Header.Get("Access-Control-Request-Method") == "" {
		header.Set("Access-Control-Expose-Headers", exposedHeaders)
		return false
	}
	header.Set("Access-Control-Allow-Methods", allowedMethods)
	header.Set("Access-Control-Allow-Headers", allowedHeaders)
	header.Set("Access-Control-Max-Age", preflightAge)
	x.w.WriteHeader(http.StatusNoContent)
	return true
}
