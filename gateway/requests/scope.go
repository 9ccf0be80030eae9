package requests

import "github.com/promptweir/promptweir/gateway/edge"

// Scope holds the resources of a request until its response is written. Code that acquires a
// resource for the request adds it here at once. The transport makes the scope and closes it when
// the response is written. The zero value holds nothing.
//
// A stream closes its scope when it has been counted as a stream. Of other requests, two resources are
// released earlier. The copies of a file that was read are released when the
// result exists. Over stdio and HTTP+SSE, the request's id is released just before the write,
// because the client may use the id again after it.
type Scope struct {
	// Connection is the memory of a request over HTTP/2 besides its body. Message is the memory of
	// a large message.
	Connection, Message edge.Reservation
	// InFlight counts the request in its session or connection. It is nil if the request is not
	// counted.
	InFlight interface{ Release() }
	// Request is the request if it can be reused, see [Read], or nil otherwise.
	Request *Request

	// limited lists the limits that count the request. It is nil before authorization.
	limited counted
	// result is the memory of the copies of a file that is being read, and later of the result.
	result edge.Reservation
	// endParked ends the get that was parked for the request, because the client cannot return to
	// it. It is nil if no get was parked, or if the client got the input_required result.
	endParked func()
	// relayed holds the messages to the client before the response. It is nil if there is no relay.
	relayed *RelayQueue
	run     *run
}

// Limited reports whether a limit counts the request.
func (s *Scope) Limited() bool { return len(s.limited) > 0 }

// KeepMemory keeps the memory of the response from being used again. Call it if the response could not be written, because
// something may still be reading it.
func (s *Scope) KeepMemory() { s.run = nil }

// Close releases everything that the request holds. Call it when the response is written, or the
// client no longer waits for it. Calling it again does nothing.
func (s *Scope) Close() {
	if s.relayed != nil {
		s.relayed.release()
		s.relayed = nil
	}
	if s.endParked != nil {
		s.endParked()
	}
	s.result.Release()
	s.limited.release()
	if s.InFlight != nil {
		s.InFlight.Release()
		s.InFlight = nil
	}
	s.Message.Release()
	s.Connection.Release()
	if x := s.run; x != nil && x.isReusable() {
		x.reset()
		runs.Put(x)
	}
	if s.run = nil; s.Request != nil {
		s.Request.release()
		s.Request = nil
	}
}
