// Package places answers: how many connections and streams can there be, and which one ends to let another one in?
//
// A process has a limited number of descriptors, and whoever takes all of them keeps everybody else out: other clients, operators
// and the upstreams. So each connection of a listener takes one of a fixed number of places, and each stream of an HTTP/2
// connection takes another. When there is none left, the holder of the most places loses one, so that a newcomer always gets in:
//
//	Accept ──▶ place of the client's address ──▶ HTTP/1.1 stream: place of the principal ──▶ Close: free
//	                       │
//	                       ▼ none left: the holder of the most loses
//	          an idle connection, else its oldest stream, else its oldest connection
//
// Promises:
//   - A stream that has to end is told so, and gets a moment to end in the way that its revision defines.
//   - Connections are never more than the places and a few that are about to close.
//   - Requests on a connection that is kept alive cost nothing here.
package places
