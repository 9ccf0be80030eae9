package http1

import "errors"

var (
	// ErrHandshakeTimeout means that the server did not finish the TLS handshake in time.
	ErrHandshakeTimeout = errors.New("TLS handshake timeout")
	// ErrWantsTLS means that a server that was spoken to without TLS answered with a message of TLS.
	ErrWantsTLS = errors.New("the server speaks TLS")

	errFarewell    = errors.New("the server closed the kept connection with an HTTP error")
	errHeadTooLong = errors.New("the head of the response is too long")
	errInformation = errors.New("the server sends one informational response after another")
	errNotHTTP     = errors.New("the response is not HTTP")
	errSwitching   = errors.New("the server switches to another protocol")
)

// Step is how far a request came that failed.
type Step int

// The steps of a request.
const (
	Connect   Step = iota // there was no connection yet
	Handshake             // there was no TLS connection yet
	Exchange              // it was sent, or parts of it
)

// Error is the failure of a request before the head of its response was read.
type Error struct {
	Step Step
	// IsReused is true if an earlier request had used the connection, and HasAnswer if some of the response had
	// arrived. A server may close a kept connection at any moment: with only the first, it has probably not seen
	// the request.
	IsReused, HasAnswer bool

	cause error
}

func (e *Error) Error() string { return e.cause.Error() }

func (e *Error) Unwrap() error { return e.cause }
