package http1

import "errors"

var (
	// ErrHandshakeTimeout means that the server did not finish the TLS handshake in time.
	ErrHandshakeTimeout = errors.New("TLS handshake timeout")
	// ErrWantsTLS means that the server answered an unencrypted request with a TLS alert.
	ErrWantsTLS = errors.New("the server speaks TLS")

	errEnded       = errors.New("the server closed the kept connection")
	errFarewell    = errors.New("the server closed the kept connection with an HTTP error")
	errHeadTooLong = errors.New("the head of the response is too long")
	errInformation = errors.New("the server sends one informational response after another")
	errNotHTTP     = errors.New("the response is not HTTP")
	errSwitching   = errors.New("the server switches to another protocol")
)

// Step is the last step that a failed request reached.
type Step int

// The steps of a request.
const (
	Connect   Step = iota // no connection yet
	Handshake             // no TLS connection yet
	Exchange              // the request was sent, or parts of it
)

// Error is the failure of a request before the head of its response was complete.
type Error struct {
	Step Step
	// IsReused is true if an earlier request used the same connection. HasAnswer is true if part of the response had
	// arrived. If only IsReused is true, the server has probably closed the idle connection without reading the request.
	IsReused, HasAnswer bool

	cause error
}

func (e *Error) Error() string { return e.cause.Error() }

func (e *Error) Unwrap() error { return e.cause }
