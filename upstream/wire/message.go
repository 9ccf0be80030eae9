package wire

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Message is one JSON-RPC 2.0 message. Members other than those below are not kept: the envelope is each hop's own.
type Message struct {
	// ID is as it was sent, a string or a number; nil where there is none.
	ID     jsontext.Value
	Method string
	// Params is an object, or nil where there are none.
	Params jsontext.Value
	// Result and Error: one of them is set in a response. Error is the raw error object, see [ReadError].
	Result jsontext.Value
	Error  jsontext.Value
}

// IsRequest reports whether the message asks for a response.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification reports whether the message is a call that wants no response.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse reports whether the message answers a request.
func (m *Message) IsResponse() bool { return m.Method == "" }

// Parse reads one message, strictly. The error is an [*Error] with [ParseError] or [InvalidRequest]; the message
// returned with it has the ID where that much could be read, so that the error can be addressed.
func Parse(raw []byte) (Message, error) {
	var m Message
	err := m.parse(raw)
	return m, err
}

// parse is [Parse] into what is there already.
func (m *Message) parse(raw []byte) error {
	e := envelope{Message: m}
	s := scanner{raw: raw}
	if err := s.members(e.take); err != nil {
		*m = Message{}
		if v := jsontext.Value(raw); v.Kind() == '[' && v.IsValid() {
			return NoBatches()
		}
		return NewError(ParseError, "Parse error: "+err.Error())
	}
	if problem := e.check(); problem != "" {
		*m = Message{ID: m.ID}
		return NewError(InvalidRequest, "Invalid request: "+problem)
	}
	return nil
}

// envelope is a message while it is read.
type envelope struct {
	*Message

	// isVersion2 is set if jsonrpc is "2.0".
	isVersion2 bool
	// nullID is set where the id is null: an error response to a message whose id could not be read has such a one.
	nullID bool
	// problem is the first that was found; the id may stand after it.
	problem string
}

// take stores one member.
func (e *envelope) take(name, _, value []byte) {
	ok, problem := true, ""
	switch string(name) {
	case "jsonrpc":
		e.isVersion2 = jsontext.Value(value).Kind() == '"' && string(unquote(value)) == "2.0"
	case "id":
		switch jsontext.Value(value).Kind() {
		case '"', '0':
			e.ID = value
		case 'n':
			e.nullID = true
		default:
			ok, problem = false, "id must be a string or a number"
		}
	case "method":
		e.Method, _ = Text(value)
		ok, problem = e.Method != "", "method must be a string"
	case "params":
		e.Params = value
		ok, problem = jsontext.Value(value).Kind() == '{', "params must be an object"
	case "result":
		e.Result = value
	case "error":
		e.Error = value
		ok, problem = jsontext.Value(value).Kind() == '{', "error must be an object"
	}
	if !ok && e.problem == "" {
		e.problem = problem
	}
}

// check holds the members against each other; what it returns says what is wrong with them.
func (e *envelope) check() (problem string) {
	m := e.Message
	switch {
	case e.problem != "":
		return e.problem
	case m.IsNotification() && e.nullID:
		return "the id of a request must not be null"
	case !e.isVersion2:
		return `jsonrpc must be "2.0"`
	case m.Method != "" && (m.Result != nil || m.Error != nil):
		return "a message cannot be a call and a response"
	case m.Method != "":
		return ""
	case m.Result == nil && m.Error == nil:
		return "neither method, result nor error"
	case m.Result != nil && m.Error != nil:
		return "both result and error"
	case m.Result != nil && m.ID == nil:
		return "a result without an id"
	}
	return ""
}

// HeadID returns the id of a message of which only the beginning is there, or nil where the id is not in it.
func HeadID(head []byte) jsontext.Value {
	dec := jsontext.NewDecoder(bytes.NewBuffer(head))
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '{' {
		return nil
	}
	for {
		name, err := dec.ReadToken()
		if err != nil || name.Kind() != '"' {
			return nil
		}
		isID := name.String() == "id"
		value, err := dec.ReadValue()
		if err != nil {
			return nil
		}
		if isID {
			return value.Clone()
		}
	}
}

// AppendRequest appends a request with a numeric id to dst. Params may be nil.
func AppendRequest(dst []byte, id int64, method string, params jsontext.Value) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = strconv.AppendInt(dst, id, 10)
	return appendCall(append(dst, ','), method, params)
}

// AppendCall is [AppendRequest] with an id of any kind.
func AppendCall(dst []byte, id jsontext.Value, method string, params jsontext.Value) []byte {
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	return appendCall(append(dst, ','), method, params)
}

// AppendNotification appends a notification to dst. Params may be nil.
func AppendNotification(dst []byte, method string, params jsontext.Value) []byte {
	return appendCall(append(dst, `{"jsonrpc":"2.0",`...), method, params)
}

func appendCall(dst []byte, method string, params jsontext.Value) []byte {
	dst = append(dst, `"method":`...)
	dst, _ = jsontext.AppendQuote(dst, method) // the error is of invalid UTF-8, which it has replaced
	if params != nil {
		dst = append(dst, `,"params":`...)
		dst = append(dst, params...)
	}
	return append(dst, '}')
}

// AppendResult appends a response with a result to dst.
func AppendResult(dst []byte, id, result jsontext.Value) []byte {
	return append(append(AppendResultHead(dst, id), result...), '}')
}

// AppendResultHead appends what stands before the result in a response; the result and a closing brace follow it.
func AppendResultHead(dst []byte, id jsontext.Value) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	return append(dst, `,"result":`...)
}

// AppendError appends an error response to dst. Without an id the message has none, as MCP's schemas ask.
func AppendError(dst []byte, id jsontext.Value, err *Error) []byte {
	dst = append(dst, `{"jsonrpc":"2.0",`...)
	if id != nil {
		dst = append(dst, `"id":`...)
		dst = append(dst, id...)
		dst = append(dst, ',')
	}
	dst = append(dst, `"error":`...)
	dst = append(dst, err.JSON()...)
	return append(dst, '}')
}

// NumberID returns a numeric id as JSON.
func NumberID(id int64) jsontext.Value { return strconv.AppendInt(nil, id, 10) }
