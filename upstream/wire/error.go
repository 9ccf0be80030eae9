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
	URLElicitationRequired     = -32042 // of 2025-11-25 only
)

// Error is a JSON-RPC error object: a peer answered, with an error.
type Error struct {
	Code    int64
	Message string
	// Data is nil if there is none.
	Data jsontext.Value
	// raw is the object as a peer sent it; nil for an error of the gateway's own.
	raw jsontext.Value
}

// NewError returns an error that the gateway makes itself.
func NewError(code int64, message string) *Error { return &Error{Code: code, Message: message} }

// FromPeer reports whether a peer sent the error, rather than the gateway.
func (e *Error) FromPeer() bool { return e.raw != nil }

// Label returns the code as an attribute of metrics: a code of the range that JSON-RPC reserves, or
// "_OTHER". Servers can make up any number of others, and each would be a time series.
func (e *Error) Label() string {
	if e.Code < -32768 || e.Code > -32000 {
		return "_OTHER"
	}
	return strconv.FormatInt(e.Code, 10)
}

// WithData returns a copy of the error with other data.
func (e *Error) WithData(data jsontext.Value) *Error {
	return &Error{Code: e.Code, Message: e.Message, Data: data}
}

// Recode returns a copy of the error with another code and data. A peer's error stays one, with the
// members that this package does not know.
func (e *Error) Recode(code int64, data jsontext.Value) *Error {
	recoded := &Error{Code: code, Message: e.Message, Data: data}
	if e.raw == nil {
		return recoded
	}
	object := Members(e.raw).With("code", NumberID(code))
	if data != nil {
		object = object.With("data", data)
	}
	recoded.raw = object.JSON()
	return recoded
}

// ReadError reads the error object of a response. It keeps other members for [Error.JSON]. The code
// must be a whole number and the message a string (JSON-RPC 2.0, "Error object").
func ReadError(raw jsontext.Value) (*Error, error) {
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

// Int returns the value of a JSON number if that is a whole number, however it is spelled.
func Int(value jsontext.Value) (n int64, ok bool) {
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return n, true
	}
	if value.Kind() != '0' {
		return 0, false
	}
	// JSON has one kind of number: 1e3 and 1000.0 are whole ones too.
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > maxExact {
		return 0, false
	}
	return int64(f), true
}

func (e *Error) Error() string {
	return e.Message + " (" + strconv.FormatInt(e.Code, 10) + ")"
}

// JSON returns the error object; that of a peer as it was sent.
func (e *Error) JSON() jsontext.Value {
	if e.raw != nil { // with members that this package does not know
		return e.raw
	}
	object := Object{}.
		With("code", jsontext.Value(strconv.FormatInt(e.Code, 10))).
		With("message", Quote(e.Message))
	if e.Data != nil {
		object = object.With("data", e.Data)
	}
	return object.JSON()
}

// maxReason bounds the reason of a cancellation, in bytes.
const maxReason = 1024

// CancelledError is the cause of a context that a peer has ended by [Cancelled]. It is a
// [context.Canceled].
type CancelledError struct {
	// Reason is what the peer said about it, for people; it may be empty.
	Reason string
}

// ReadCancelled reads the params of [Cancelled]. Too long a reason is cut.
func ReadCancelled(params Object) *CancelledError {
	reason, _ := params.Text("reason")
	return &CancelledError{Clip(reason, maxReason)}
}

// Error does not repeat the reason, which is the peer's own text.
func (*CancelledError) Error() string { return "cancelled by the client" }

func (*CancelledError) Unwrap() error { return context.Canceled }
