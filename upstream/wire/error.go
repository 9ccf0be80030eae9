package wire

import (
	"context"
	"errors"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Error codes of JSON-RPC 2.0 and of MCP 2026-07-28 (Overview, "Error Codes").
const (
	ParseError                 = -32700
	InvalidRequest             = -32600
	MethodNotFound             = -32601
	InvalidParams              = -32602
	InternalError              = -32603
	HeaderMismatch             = -32020
	MissingClientCapability    = -32021
	UnsupportedProtocolVersion = -32022
	URLElicitationRequired     = -32042 // only in 2025-11-25
)

// Error is a JSON-RPC error object, from a peer or from the gateway.
type Error struct {
	Code    int64
	Message string
	// Data may be nil.
	Data jsontext.Value
	// raw is the peer's error object, or nil for the gateway's own error.
	raw jsontext.Value
}

// NewError returns an error of the gateway.
func NewError(code int64, message string) *Error { return &Error{Code: code, Message: message} }

// FromPeer reports whether a peer sent the error.
func (e *Error) FromPeer() bool { return e.raw != nil }

// Label returns the code as a metric attribute, or "_OTHER" for a code that JSON-RPC does not
// reserve: with all codes as labels, servers could create any number of time series.
func (e *Error) Label() string {
	if e.Code < -32768 || e.Code > -32000 {
		return "_OTHER"
	}
	return strconv.FormatInt(e.Code, 10)
}

// WithData returns a copy of the error with other data. The copy counts as the gateway's own error.
func (e *Error) WithData(data jsontext.Value) *Error {
	return &Error{Code: e.Code, Message: e.Message, Data: data}
}

// Recode returns a copy of the error with another code and data. If data is nil, a peer's error keeps its data in the JSON. A peer's error
// keeps its unknown members.
func (e *Error) Recode(code int64, data jsontext.Value) *Error {
	recoded := &Error{Code: code, Message: e.Message, Data: data}
	if e.raw == nil {
		return recoded
	}
	recoded.raw = Members(e.raw).With("code", NumberID(code)).With("data", data).JSON()
	return recoded
}

// ReadError reads the error object of a response. The code must be a whole number and the message a
// string (JSON-RPC 2.0, "Error object"). [Error.JSON] keeps unknown members, but not the gateway's
// own keys in a _meta.
func ReadError(raw jsontext.Value) (*Error, error) {
	raw = WithoutOwnMeta(raw)
	object, err := ParseObject(raw)
	if err != nil {
		return nil, err
	}
	code, isInt := Int(object.Get("code"))
	message, isText := object.Text("message")
	if !isInt || !isText {
		return nil, errors.New("an error object must have a whole number as its code and a string as its message")
	}
	return &Error{Code: code, Message: message, Data: object.Get("data"), raw: raw}, nil
}

// maxExact bounds the whole numbers that a float64 represents exactly.
const maxExact = 1 << 53

// Int returns the value of a JSON number that is whole, in any spelling. ok is false for other
// values, and for numbers out of range.
func Int(value jsontext.Value) (n int64, ok bool) {
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return n, true
	}
	if value.Kind() != '0' {
		return 0, false
	}
	// 1e3 and 1000.0 are whole, because JSON has one kind of number.
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > maxExact {
		return 0, false
	}
	return int64(f), true
}

func (e *Error) Error() string {
	return e.Message + " (" + strconv.FormatInt(e.Code, 10) + ")"
}

// JSON returns the error object. A peer's object is unchanged.
func (e *Error) JSON() jsontext.Value {
	if e.raw != nil { // with its unknown members
		return e.raw
	}
	return Object{}.With("code", NumberID(e.Code)).With("message", Quote(e.Message)).With("data", e.Data).JSON()
}

// maxReason bounds the reason of a cancellation, in bytes.
const maxReason = 1024

// CancelledError is the cause of a context that a peer's [Cancelled] has ended. It wraps
// [context.Canceled].
type CancelledError struct {
	// Reason is the peer's text for people; it may be empty.
	Reason string
}

// ReadCancelled reads the params of [Cancelled]. It cuts the reason after maxReason bytes.
func ReadCancelled(params Object) *CancelledError {
	reason, _ := params.Text("reason")
	return &CancelledError{Clip(reason, maxReason)}
}

// Error omits the reason, because the peer chose its text.
func (*CancelledError) Error() string { return "cancelled by the client" }

func (*CancelledError) Unwrap() error { return context.Canceled }
